/** Starts the processes of the edge, and gives them the memory in which they count together. */
import { chmodSync, chownSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { boundedLines } from "../../base/bounded-lines.ts";
import type { Directory } from "../../contract/internal/directory.ts";
import type { InnerDoor } from "../../edge/inner-server.ts";
import { type ConnectionLimits, EDGE_PROCESS_LINE_MAX_BYTES } from "../../edge/limits.ts";
import { EdgeProcesses } from "../../edge/process/edge-processes.ts";
import type { StartedProcess } from "../../edge/process/process-hold.ts";
import { countsBytes, SharedCounts } from "../../edge/process/shared-counts.ts";
import type { EdgeLog } from "../../edge/routing/service-lookup.ts";
import { limitEdgeMemory } from "../../system/cgroup/edge-memory.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import { edgeId } from "../../system/id-range.ts";
import { openFilesMax } from "../../system/open-files.ts";
import { answerFirst } from "../../system/thread-priority.ts";
import { bundleProgram, spawnUnprivileged } from "../../system/unprivileged-process.ts";
import { SPLICE_NAME } from "./splice-place.ts";

/** Processes that carry, of which there are as many as processors. */
const EDGE_PROCESSES_MAX = 8;

const PROGRAM = join(import.meta.dir, "edge-program.ts");
const SPLICE_PROGRAM = join(import.meta.dir, "../../edge/splice/splice-program.ts");
/** Clients of all addresses come, and ports below 1024 are asked for. */
const CAPABILITY = "net_bind_service";
/**
 * Most of what the program does is done by the kernel. The last of JavaScript's compilers has more work with it, on
 * threads of its own, than it ever saves.
 */
const ENVIRONMENT = { BUN_JSC_useFTLJIT: "0" };

interface EdgeAbout {
  /** As `bundleEdge` answered. */
  program: string;
  /** Of this server's sandboxes: no other server on this machine has it. */
  net: number;
  directory: Directory;
  management: InnerDoor;
  trustedProxies: readonly string[];
  limits: ConnectionLimits;
  log: EdgeLog;
  /** Of the server, whose cgroups have it; without one, the memory of the processes is not limited. */
  tag?: string;
  /** How many, if not as many as is usual on this machine. */
  processes?: number;
  /** How often each is asked whether it is of use, if not as often as is usual. */
  pingMs?: number;
}

/** The program, in a folder of its own that everybody can read, and that of its other thread in another. */
export async function bundleEdge({ runFolder }: Pick<DataFolder, "runFolder">): Promise<string> {
  const splice = bundleProgram(SPLICE_PROGRAM, runFolder, SPLICE_NAME);
  const [program] = await Promise.all([bundleProgram(PROGRAM, runFolder, "edge"), splice]);
  return program;
}

export async function startEdge({
  program,
  net,
  tag,
  log,
  processes = usual(),
  ...about
}: EdgeAbout): Promise<EdgeProcesses> {
  const uid = edgeId(net);
  const countsFile = sharedFile(join(dirname(program), "counts"), countsBytes(processes), uid);
  const counts = new SharedCounts(Bun.mmap(countsFile, { shared: true }), processes);
  const start = (process: number) => {
    const one = started(program, uid, log);
    if (tag !== undefined) limitEdgeMemory(tag, process, one.pid);
    return one;
  };
  return await EdgeProcesses.open({ ...about, processes, start, counts, countsFile, log });
}

/** Memory of all processes that have this user id. */
function sharedFile(file: string, bytes: number, uid: number): string {
  writeFileSync(file, new Uint8Array(bytes), { mode: 0o600 });
  chmodSync(file, 0o600);
  chownSync(file, uid, uid);
  return file;
}

function usual(): number {
  return Math.min(availableParallelism(), EDGE_PROCESSES_MAX);
}

function started(program: string, uid: number, log: EdgeLog): StartedProcess & { pid: number } {
  const child = spawnUnprivileged({ program, uid, files: openFilesMax(), capability: CAPABILITY, env: ENVIRONMENT });
  answerFirst(child.pid);
  void logComplaints(child.stderr, log);
  return {
    pid: child.pid,
    lines: boundedLines(child.stdout, EDGE_PROCESS_LINE_MAX_BYTES),
    send(line) {
      try {
        child.stdin.write(line);
        void Promise.resolve(child.stdin.flush()).catch(() => undefined);
      } catch {
        // It is going; the next one is told everything.
      }
    },
    kill: () => child.kill("SIGKILL"),
    exited: child.exited.then(() => `${child.signalCode ?? `exit code ${child.exitCode}`}`),
  };
}

async function logComplaints(stderr: ReadableStream<Uint8Array>, log: EdgeLog): Promise<void> {
  try {
    for await (const line of boundedLines(stderr, EDGE_PROCESS_LINE_MAX_BYTES)) {
      if (line !== "") log("a process of the edge says", { line });
    }
  } catch {
    // It is over.
  }
}
