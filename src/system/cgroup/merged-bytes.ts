/** Memory of the processes in a cgroup that the kernel has merged with equal pages. */
import { readFile } from "node:fs/promises";
import { pageSize } from "../page-size.ts";
import { freezerOf, processesBelow } from "./freezer.ts";

/** 0 for a cgroup that is gone, and where the kernel has no such counter (Linux before 6.1). */
export async function mergedBytes(cgroup: string): Promise<number> {
  const pids = await processesBelow(freezerOf(cgroup)).catch(() => []);
  const pages = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/ksm_merging_pages`, "utf8").then(Number, () => 0)),
  );
  return pages.reduce((sum, each) => sum + each, 0) * pageSize();
}
