/** Maps inotify events to event types of the wire. */
import { EventType } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { IN } from "./inotify.ts";

/** One kernel event may have several meanings; they are reported in this order. */
const KINDS: readonly (readonly [bits: number, type: EventType])[] = [
  [IN.CREATE | IN.MOVED_TO, EventType.CREATE],
  [IN.MOVED_FROM | IN.MOVE_SELF, EventType.RENAME],
  [IN.ATTRIB, EventType.CHMOD],
  [IN.MODIFY, EventType.WRITE],
  [IN.DELETE | IN.DELETE_SELF | IN.UNMOUNT, EventType.REMOVE],
];

export function eventTypes(mask: number): EventType[] {
  return KINDS.filter(([bits]) => (mask & bits) !== 0).map(([, type]) => type);
}

/** Whether a file may exist after an event of this type. */
export function leavesEntry(type: EventType): boolean {
  return type === EventType.CREATE || type === EventType.WRITE || type === EventType.CHMOD;
}
