/** Volumes that are always empty: for tests of access rights. */
import { Fault } from "../../contract/fault.ts";
import type { VolumeContent, VolumeEntry } from "../../contract/internal/volume-content.ts";

const AT = "2027-01-15T08:00:00.000Z";

function entry(path: string): VolumeEntry {
  const times = { atime: AT, mtime: AT, ctime: AT };
  return { name: "x", type: "file", path, size: 0, mode: 0o666, uid: 1000, gid: 1000, ...times };
}

export const emptyVolumes: VolumeContent = {
  stat: async (_, path) => entry(path),
  list: async () => [],
  makeFolder: async (_, path) => entry(path),
  change: async (_, path) => entry(path),
  remove: async () => undefined,
  read: async (_, path) => {
    throw new Fault(404, `"${path}" does not exist in this volume`);
  },
  write: async (_, path) => entry(path),
};
