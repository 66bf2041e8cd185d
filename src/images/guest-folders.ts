/** The guests in the cache folder, one folder per version. marked-folders.ts removes old ones. */
import { basename, dirname, join } from "node:path";
import { type Clock, systemClock } from "../base/clock.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import type { DataFolder } from "../system/data-folder.ts";
import {
  choose,
  dropMarksOf,
  type FolderKind,
  type FolderUses,
  MarkedFolders,
  markedBy,
  tagsOfMarks,
} from "./marked-folders.ts";

const GUEST_REMOVE_MS = scaled(60_000);

export type GuestUses = FolderUses;

const GUESTS: FolderKind = {
  folder: "guests",
  name: /^[0-9a-f]{16}$/,
  marks: "in-use",
  lock: "lock",
  besides: [],
  removeMs: GUEST_REMOVE_MS,
};

export class GuestFolders extends MarkedFolders {
  private constructor(
    readonly current: string,
    data: Pick<DataFolder, "path" | "tag">,
    cacheFolder: string,
    clock: Clock,
  ) {
    super(GUESTS, data, cacheFolder, clock);
    this.hold(current);
  }

  /** Throws Fault 500 when the guest is missing. From now on no server removes it. */
  static open(
    cacheFolder: string,
    current: string,
    data: Pick<DataFolder, "path" | "tag">,
    clock: Clock = systemClock,
  ): GuestFolders {
    const guests = new GuestFolders(current, data, cacheFolder, clock);
    // A guest outside the cache folder is never removed by a server, and needs no mark.
    const isOurs = dirname(current) === join(cacheFolder, GUESTS.folder) && GUESTS.name.test(basename(current));
    if (isOurs && guests.mark([basename(current)]).length > 0) {
      throw new Fault(500, `the guest ${current} is gone. FIX: start the server again, which builds it`);
    }
    return guests;
  }
}

/** The folder of the guest with this name, whether it exists or not. */
export function guestFolderNamed(cacheFolder: string, name: string): string {
  return join(cacheFolder, GUESTS.folder, name);
}

/** Whether the guest exists; if so, it stays until the starting server has marked it. */
export function chooseGuest(folder: string, clock: Pick<Clock, "now"> = systemClock): boolean {
  return choose(GUESTS, folder, clock);
}

export function cachedGuests(cacheFolder: string, data: Pick<DataFolder, "path" | "tag">): MarkedFolders {
  return new MarkedFolders(GUESTS, data, cacheFolder);
}

/** Guests that the server with this tag needs. */
export function guestsMarkedBy(cacheFolder: string, tag: string): string[] {
  return markedBy(GUESTS, cacheFolder, tag);
}

/** Tags of the servers that need guests of this cache. */
export function serversWithGuests(cacheFolder: string): string[] {
  return tagsOfMarks(GUESTS, cacheFolder);
}

/** Drops the marks of a server that is removed, except for guests that its checkpoints still need. */
export function dropGuestMarks(cacheFolder: string, tag: string, needed: Iterable<string> = []): void {
  dropMarksOf(GUESTS, cacheFolder, tag, needed);
}
