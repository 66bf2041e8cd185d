/** Finds the loop device that a file is attached to. */
import { readdirSync, readFileSync } from "node:fs";

/** Undefined: the file is not attached. */
export function deviceOf(file: string): string | undefined {
  const name = readdirSync("/sys/block").find((each) => backingFileOf(each) === file);
  return name === undefined ? undefined : `/dev/${name}`;
}

/** Undefined also for a device that was just released. */
function backingFileOf(name: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, "utf8").trim();
  } catch {
    return undefined;
  }
}
