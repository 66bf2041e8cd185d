/** Starts the edge processes, and gives them shared memory for their counters. */
import { chmodSync, chownSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { boundedLines } from "../../../base/bounded-lines.ts";
import { described, type Log } from "../../../base/log.ts";
import { writeToStdin } from "../../../base/program-stdin.ts";
import { EDGE_PROCESS_LINE_MAX_BYTES } from "../../../edge/limits.ts";
import { type EdgeOptions, EdgeProcesses } from "../../../edge/process/edge-processes.ts";
import type { StartedProcess } from "../../../edge/process/process-handle.ts";
import { countsBytes, SharedCounts } from "../../../edge/process/shared-counts.ts";
import type { EdgeLog } from "../../../edge/routing/service-lookup.ts";
import { limitEdgeMemory } from "../../../system/cgroup/edge-memory.ts";
import type { DataFolder } from "../../../system/data-folder.ts";
import { edgeId } from "../../../system/id-range.ts";
import { openFilesMax } from "../../../system/open-files.ts";
import { bundleProgram, spawnUnprivileged } from "../../../system/unprivileged-process.ts";

/** Maximum edge processes; the default is one per processor. */
const EDGE_PROCESSES_MAX = 8;

const PROGRAM = join(import.meta.dir, "edge-program.ts");
const SPLICE_PROGRAM = join(import.meta.dir, "../../../edge/splice/splice-thread.ts");
/** The capability to listen on ports below 1024. */
const CAPABILITY = "net_bind_service";
/** The kernel does most of the work: the compiler's last tier costs more, on its own threads, than it saves. */
const ENVIRONMENT = { BUN_JSC_useFTLJIT: "0" };

interface EdgeAbout extends Omit<EdgeOptions, "processes" | "start" | "counts" | "countsFile"> {
  program: string;
  /** Net of this server's sandboxes; unique on this machine. */
  net: number;
  /** Tag of the server, part of the names of its cgroups. Absent: the memory of the processes is not limited. */
  tag?: string;
  /** Default: one per processor, up to a maximum. */
  processes?: number;
}

/** Bundles the program and that of its splice thread, each in its own world-readable folder. */
export async function bundleEdge({ runFolder }: Pick<DataFolder, "runFolder">): Promise<string> {
  const splice = bundleProgram(SPLICE_PROGRAM, runFolder, "splice");
  const [program] = await Promise.all([bundleProgram(PROGRAM, runFolder, "edge"), splice]);
  return program;
}

export async function startEdge({
  program,
  net,
  tag,
  log,
  processes = defaultProcessCount(),
  ...about
}: EdgeAbout): Promise<EdgeProcesses> {
  const uid = edgeId(net);
  const countsFile = sharedFile(join(dirname(program), "counts"), countsBytes(processes), uid);
  const counts = new SharedCounts(Bun.mmap(countsFile, { shared: true }), processes);
  const start = (process: number) => {
    const child = spawnEdgeProcess(program, uid, log);
    if (tag !== undefined) limitEdgeMemory(tag, process, child.pid);
    return child;
  };
  return await EdgeProcesses.open({ ...about, processes, start, counts, countsFile, log });
}

/** Writes what the edge reports to the server's log, with errors described. */
export function edgeLog(log: Log): EdgeLog {
  return (event: string, context: Record<string, unknown>) => {
    const details = Object.entries(context).map(([name, value]) => [name, described(value)]);
    log.write({ level: "warn", event, ...Object.fromEntries(details) });
  };
}

/** Memory shared by all processes of this user id. */
function sharedFile(file: string, bytes: number, uid: number): string {
  writeFileSync(file, new Uint8Array(bytes), { mode: 0o600 });
  chmodSync(file, 0o600);
  chownSync(file, uid, uid);
  return file;
}

function defaultProcessCount(): number {
  return Math.min(availableParallelism(), EDGE_PROCESSES_MAX);
}

function spawnEdgeProcess(program: string, uid: number, log: EdgeLog): StartedProcess & { pid: number } {
  const child = spawnUnprivileged({ program, uid, files: openFilesMax(), capability: CAPABILITY, env: ENVIRONMENT });
  void logStderr(child.stderr, log);
  return {
    pid: child.pid,
    lines: boundedLines(child.stdout, EDGE_PROCESS_LINE_MAX_BYTES),
    send(line) {
      // Rejected when the process is ending; its successor gets everything again.
      void writeToStdin(child.stdin, line).catch(() => undefined);
    },
    kill: () => child.kill("SIGKILL"),
    exited: child.exited.then(() => `${child.signalCode ?? `exit code ${child.exitCode}`}`),
  };
}

async function logStderr(stderr: ReadableStream<Uint8Array>, log: EdgeLog): Promise<void> {
  try {
    for await (const line of boundedLines(stderr, EDGE_PROCESS_LINE_MAX_BYTES)) {
      if (line !== "") log("an edge process printed", { line });
    }
  } catch {
    // The process has ended.
  }
}
