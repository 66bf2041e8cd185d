/** The guests in the cache folder, one folder for each version. Old ones go as marked-folders.ts says. */
import { basename, dirname, join } from "node:path";
import { type Clock, systemClock } from "../base/clock.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { choose, dropMarksOf, type FolderKind, type FolderUses, MarkedFolders } from "./marked-folders.ts";

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

  /** Fault 500 when the guest is not there. From now on no server removes it. */
  static open(
    cacheFolder: string,
    current: string,
    data: Pick<DataFolder, "path" | "tag">,
    clock: Clock = systemClock,
  ): GuestFolders {
    const guests = new GuestFolders(current, data, cacheFolder, clock);
    // A guest in another place is not ours to remove, and needs no mark.
    const isOurs = dirname(current) === join(cacheFolder, GUESTS.folder) && GUESTS.name.test(basename(current));
    if (isOurs && guests.mark([basename(current)]).length > 0) {
      throw new Fault(500, `the guest ${current} is gone. FIX: start the server again, which makes it anew`);
    }
    return guests;
  }
}

/** Where the guest of this name is, or would be. */
export function guestFolderNamed(cacheFolder: string, name: string): string {
  return join(cacheFolder, GUESTS.folder, name);
}

/** Whether it is there; if so, it stays until the server that is being started has marked it. */
export function chooseGuest(folder: string, clock: Pick<Clock, "now"> = systemClock): boolean {
  return choose(GUESTS, folder, clock);
}

/** For a server that goes: its checkpoints may still need some. */
export function dropGuestMarks(cacheFolder: string, tag: string, needed: Iterable<string> = []): void {
  dropMarksOf(GUESTS, cacheFolder, tag, needed);
}
