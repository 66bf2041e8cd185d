/** Detects connected UDP sockets in a network namespace. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../base/system-code.ts";

/** Whether a UDP socket has a peer address. `folder` is the `net` folder of a process. */
export async function hasConnectedUdp(folder: string): Promise<boolean> {
  const tables = await Promise.all(["udp", "udp6"].map((name) => table(join(folder, name))));
  // Columns: number, local address, peer address, which is all zeros without a peer.
  return tables.some((text) => /^ *\d+: \S+ (?!0+:0000 )/m.test(text));
}

async function table(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    // The kernel has no IPv6, or the process has ended.
    if (["ENOENT", "ESRCH", "EINVAL"].includes(systemCode(error))) return "";
    throw error;
  }
}
