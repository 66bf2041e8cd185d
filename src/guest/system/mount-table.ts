/** The kernel's mount table for this process. */
import { readFile } from "node:fs/promises";

interface Mount {
  point: string;
  /** Name of the file system, such as `ext4`. */
  type: string;
}

export async function readMounts(): Promise<Mount[]> {
  return parseMounts(await readFile("/proc/self/mountinfo", "utf8"));
}

export function parseMounts(text: string): Mount[] {
  return text.split("\n").flatMap((line) => {
    const [mount = "", source = ""] = line.split(" - ");
    const point = mount.split(" ")[4];
    const type = source.split(" ")[0];
    return point && type ? [{ point: unescaped(point), type }] : [];
  });
}

/** The kernel writes spaces and similar characters as octal numbers. */
function unescaped(point: string): string {
  return point.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
