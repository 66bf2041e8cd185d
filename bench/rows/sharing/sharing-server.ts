/** A second server whose sandboxes all share memory, and what sharing costs and saves. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readRecord } from "../../../src/sandbox/sandbox-record.ts";
import { freezerOf, processesBelow } from "../../../src/system/cgroup/freezer.ts";
import { ksmdPid, MERGING_FOLDER, mergingFault } from "../../../src/system/page-merging.ts";
import { processMs } from "../../../src/system/thread-times.ts";
import type { Context } from "../../context.ts";
import { memoryOf } from "../../sandboxes/bench-sandbox.ts";
import { SecondServer, type SecondServerOptions } from "../../sandboxes/second-server.ts";

const MIB = 1024 ** 2;
/** Size of the kernel's note about one page of a process that shares memory. No cgroup counts it. */
const NOTE_BYTES = 64;
const LOOK_MS = 1_000;
/** Scans without progress, after which little is left to merge. */
const SCANS = 3;
/** The part of the merged pages by which they grow if ksmd still finds something. */
const PROGRESS_PART = 0.01;

/** Not measured on a kernel that cannot merge pages. */
export async function sharingServer(
  context: Context,
  { ready = 0, settings = {} }: SecondServerOptions = {},
): Promise<SecondServer | { notMeasured: string }> {
  const fault = await mergingFault();
  if (fault !== undefined) return { notMeasured: fault };
  return await SecondServer.start(context, { ready, settings: { ...settings, SANDLOT_SHARED_MEMORY: "all" } });
}

/** Processor time of ksmd so far. NaN: this process cannot see it. */
export function ksmdMs(): number {
  const pid = ksmdPid();
  return pid === undefined ? Number.NaN : (processMs(pid) ?? Number.NaN);
}

/** Returns early when ksmd rests, or has looked at everything again and merged hardly anything more. */
export async function untilMerged(withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  let last = { scans: counter("full_scans"), merged: counter("pages_sharing") };
  while (performance.now() < deadline && counter("run") !== 0 && counter("full_scans") < last.scans + SCANS) {
    await Bun.sleep(LOOK_MS);
    const merged = counter("pages_sharing");
    if (merged > last.merged * (1 + PROGRESS_PART)) last = { scans: counter("full_scans"), merged };
  }
}

/** Memory of each of these sandboxes in MiB: what its cgroup counts, and the kernel's notes about shared pages. */
export async function memoryOfAll(context: Context, ids: readonly string[]): Promise<number[]> {
  return await Promise.all(ids.map(async (id) => memoryOf(context, id) + (await notesOf(context, id))));
}

async function notesOf({ data }: Context, id: string): Promise<number> {
  const cgroup = readRecord(join(data.sandboxesFolder, id))?.cgroup ?? "";
  const pids = await processesBelow(freezerOf(cgroup));
  const files = pids.map((pid) => `/proc/${pid}/ksm_stat`).filter((file) => existsSync(file));
  const notes = files.map((file) => Number(/^ksm_rmap_items (\d+)$/m.exec(readFileSync(file, "utf8"))?.[1] ?? 0));
  return (notes.reduce((sum, count) => sum + count, 0) * NOTE_BYTES) / MIB;
}

function counter(name: string): number {
  return Number(readFileSync(join(MERGING_FOLDER, name), "utf8"));
}
