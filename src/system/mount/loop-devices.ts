/** Which loop device a file is attached to. */
import { readdirSync, readFileSync } from "node:fs";

/** Undefined: to none. */
export function deviceOf(file: string): string | undefined {
  const name = readdirSync("/sys/block").find((each) => backingFileOf(each) === file);
  return name === undefined ? undefined : `/dev/${name}`;
}

/** Undefined also for one that was let go just now. */
function backingFileOf(name: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, "utf8").trim();
  } catch {
    return undefined;
  }
}
