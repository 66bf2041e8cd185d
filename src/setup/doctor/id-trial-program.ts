/**
 * The mounting part of the doctor's user id check, in its own mount namespace: mounts a root over layers with mapped
 * owners. `id-trial-program.ts FOLDER LAYER…`; prints the reason on stderr if it fails.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "../../base/error-message.ts";
import { HOST_ID_FIRST, ID_COUNT } from "../../system/id-range.ts";
import { Mounts } from "../../system/mount/mounts.ts";

const [folder = "", ...layers] = process.argv.slice(2);
const [root, disk] = [join(folder, "root"), join(folder, "disk")];
const mounts = new Mounts();

try {
  for (const path of [root, disk]) mkdirSync(path);
  await mounts.do({ kind: "tmpfs", target: disk, options: "" });
  for (const name of ["upper", "work"]) mkdirSync(join(disk, name));
  const lowers = layers.map((layer) => ({ folder: layer, ids: "shifted" }) as const);
  await mounts.do({ kind: "overlay", target: root, disk, lowers, folder, firstId: HOST_ID_FIRST + ID_COUNT });
  process.exit(0);
} catch (error) {
  console.error(errorMessage(error));
  process.exit(1);
}
