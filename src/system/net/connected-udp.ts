/** What the kernel tells of the UDP sockets of a network namespace. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** Whether one of them sends to one address alone. `folder` is the `net` folder of a process. */
export async function hasConnectedUdp(folder: string): Promise<boolean> {
  const tables = await Promise.all(["udp", "udp6"].map((name) => table(join(folder, name))));
  // The number, where it is bound, and then whom it is for: zeros if for anybody.
  return tables.some((text) => /^ *\d+: \S+ (?!0+:0000 )/m.test(text));
}

async function table(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    // A kernel without IPv6, or a process that has ended.
    if (["ENOENT", "ESRCH", "EINVAL"].includes((error as NodeJS.ErrnoException).code ?? "")) return "";
    throw error;
  }
}
