/**
 * A memory image as it is to be restored this once, beside the one that was written and that stays as it is: the same
 * files under second names, but for the one that says how long open files are.
 */
import { chmodSync, chownSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HOST_ID_FIRST } from "../../system/id-range.ts";
import { FILES_IMAGE, withSizes } from "./image-open-files.ts";

/** On the same filesystem, and gone with the checkpoint should nobody come to remove it. */
export function adaptImage(
  images: string,
  id: string,
  sizes: ReadonlyMap<string, number>,
): { folder: string } & Disposable {
  const folder = join(dirname(images), `for-${id}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { mode: 0o700 });
  for (const name of readdirSync(images)) {
    if (name !== FILES_IMAGE) linkSync(join(images, name), join(folder, name));
  }
  const path = join(folder, FILES_IMAGE);
  writeFileSync(path, withSizes(readFileSync(join(images, FILES_IMAGE)), sizes), { mode: 0o640 });
  // Read from inside, as the image itself.
  for (const each of [path, folder]) chownSync(each, 0, HOST_ID_FIRST);
  chmodSync(folder, 0o2750);
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}
