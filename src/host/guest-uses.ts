/** Finds the guests and images that sandboxes and checkpoints of this server, and sandboxes of others, need. */
import type { GuestUses } from "../images/guest-folders.ts";
import type { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { GuestPages } from "../sandbox/guest-link/guest-pages.ts";
import { recordsIn, recordsOfOthers, type SandboxRecord } from "../sandbox/sandbox-record.ts";
import type { DataFolder } from "../system/data-folder.ts";

export function guestUses(
  { sandboxesFolder, tag }: DataFolder,
  checkpoints: Pick<Checkpoints, "guestFolders">,
  pages: Pick<GuestPages, "unlock">,
): GuestUses {
  return {
    own: async () => [...guestsIn(recordsIn(sandboxesFolder)), ...(await checkpoints.guestFolders())],
    others: () => guestsIn(recordsOfOthers(tag)),
    release: (folder) => pages.unlock(folder),
  };
}

/** Images in use; `current` lists the built-in images of this server, whether they are made yet or not. */
export function imageUses(
  { sandboxesFolder, tag }: DataFolder,
  checkpoints: Pick<Checkpoints, "images">,
  current: () => readonly string[],
) {
  return {
    // In this order: a sandbox that is being paused has a record until its checkpoint exists.
    own: async () => [...imagesIn(recordsIn(sandboxesFolder)), ...(await checkpoints.images())],
    others: () => [...imagesIn(recordsOfOthers(tag)), ...current()],
  };
}

function imagesIn(records: readonly SandboxRecord[]): string[] {
  return records.map(({ kind }) => kind.image);
}

function guestsIn(records: readonly SandboxRecord[]): string[] {
  return records.map(({ guestFolder }) => guestFolder);
}
