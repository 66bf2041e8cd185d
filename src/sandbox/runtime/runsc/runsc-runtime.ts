/**
 * The isolation runtime runsc (gVisor). Each sandbox has its own kernel, a program that handles all system calls
 * inside, and a second process that opens files for it. Both are in the sandbox's cgroup, as are the processes in which
 * runsc runs the code of the sandbox.
 *
 * runsc is installed only where the operator chose it. Operations that do not need it, such as removal, work without
 * it.
 */
import { chownSync, closeSync, constants, copyFileSync, existsSync, lstatSync, openSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Fault } from "../../../contract/fault.ts";
import { MIB } from "../../../contract/limit.ts";
import { freeze, thaw } from "../../../system/cgroup/freezer.ts";
import { memoryInUse } from "../../../system/cgroup/memory-in-use.ts";
import { removeCgroups } from "../../../system/cgroup/removal.ts";
import type { DataFolder } from "../../../system/data-folder.ts";
import { startTicks } from "../../../system/start-ticks.ts";
import { IMAGE_STOP_MS } from "../../limits.ts";
import type {
  CheckpointRequest,
  CreatedContainer,
  ImageFacts,
  NewSandbox,
  OpenFile,
  OutsideMount,
  RestoreRequest,
  RunningContainer,
  Runtime,
  StoppedSandbox,
} from "../runtime.ts";
import { endRestores, makeParent, sandboxCgroups, toolCgroup, waitForDump } from "../tool-work.ts";
import { pathHasLinkFault, pathIsFileFault } from "../volume-fault.ts";
import { mismatch, runscFacts } from "./image-facts.ts";
import { Runsc } from "./runsc.ts";
import { explain } from "./runsc-error.ts";
import { mountedFromOutside, type RunscSpec, runscSpec, specForRestore, TMP_MARK } from "./runsc-spec.ts";

/** In the image folder, beside the files that runsc writes. */
const SPEC_FILE = "spec.json";

export class RunscRuntime implements Runtime {
  readonly showsProcesses = false;
  /** runsc picks the address that shares the most leading bits with the destination. */
  readonly choosesSource = true;
  /**
   * Open connections are cut in the middle of a checkpoint, and incoming packets change the state being written. Either
   * may leave a program that waits for connections hanging or spinning.
   */
  readonly keepsConnections = false;
  readonly #runsc: Runsc;
  #version: string | undefined;

  private constructor(
    readonly data: DataFolder,
    binary: string,
  ) {
    this.#runsc = new Runsc(binary, data);
  }

  static async open(binary: string, data: DataFolder): Promise<RunscRuntime> {
    const runtime = new RunscRuntime(data, binary);
    if (existsSync(binary)) runtime.#version = await runtime.#runsc.version();
    return runtime;
  }

  async create(sandbox: NewSandbox): Promise<CreatedContainer> {
    await this.#requireTool();
    const spec = runscSpec(sandbox);
    requireFolders(sandbox.root, sandbox.volumes);
    markTmp(sandbox);
    const pid = await this.#make(sandbox, spec);
    return { ...this.#running(sandbox.id, pid), mounts: mountedFromOutside(spec) };
  }

  async start(id: string, pid: number): Promise<void> {
    if (startTicks(pid) === undefined) throw endedBefore(id);
    await this.#runsc.start(id).catch((cause: unknown) => {
      throw startTicks(pid) === undefined ? endedBefore(id, cause) : cause;
    });
  }

  async remove(id: string, withinMs?: number): Promise<void> {
    const tools = (["restore", "dump"] as const).map((action) => toolCgroup(this.data, id, action));
    for (const cgroup of [...tools, `${this.data.cgroup}/${id}`]) await removeCgroups(cgroup, new Set(), withinMs);
    this.#runsc.forget(id);
  }

  async list(): Promise<string[]> {
    return [...new Set([...this.#runsc.list(), ...(await sandboxCgroups(this.data))])];
  }

  /** The memory of a sandbox is one file of its kernel; a checkpoint holds the part in use. */
  async imageBytes(cgroup: string, maxBytes: number): Promise<number> {
    const bytes = memoryInUse(cgroup);
    if (bytes <= maxBytes) return bytes;
    const most = Math.floor(maxBytes / MIB);
    throw new Fault(
      422,
      `the memory of this sandbox cannot be kept: it would take more than ${most} MiB on disk. ` +
        "End some of its processes, or pause with memory: false to keep only the files",
    );
  }

  /** Nothing inside runs from the first step on, so the disk has exactly what the memory takes for written. */
  async checkpoint(request: CheckpointRequest): Promise<StoppedSandbox> {
    await this.#requireTool();
    const { id, pid, cgroup, folder, images, bounds } = request;
    const undo = () => this.unfreeze(id, cgroup);
    const undoOnFailure = async (step: () => Promise<void>) => {
      try {
        await step();
      } catch (cause) {
        if (startTicks(pid) === undefined) {
          throw new Fault(404, `sandbox ${id} ended while runsc wrote its checkpoint`, { cause });
        }
        await undo();
        throw explain(cause);
      }
    };
    await undoOnFailure(async () => {
      await this.#runsc.pause(id);
      bounds.requireRoom();
    });
    return {
      givenUp: AbortSignal.timeout(bounds.maxMs + IMAGE_STOP_MS),
      write: () =>
        undoOnFailure(async () => {
          await this.#runsc.checkpoint(id, images, bounds.maxMs + IMAGE_STOP_MS);
          copyFileSync(join(folder, "config.json"), join(images, SPEC_FILE));
        }),
      release: () => undoOnFailure(() => freeze(cgroup)),
      undo,
    };
  }

  async unfreeze(id: string, cgroup: string): Promise<void> {
    thaw(cgroup);
    if (this.#runsc.stateOf(id)?.status === "paused") await this.#runsc.resume(id);
  }

  get imageFacts(): ImageFacts {
    return runscFacts(this.#version ?? "none");
  }

  mismatch(written: ImageFacts): string | undefined {
    return mismatch(written, runscFacts(this.#version ?? "none"));
  }

  /** Connections are in runsc's own network stack. */
  holdsConnections(): boolean {
    return false;
  }

  /** Only runsc can read its image; it rejects a restore if open files have changed. */
  openFiles(): OpenFile[] {
    return [];
  }

  async restore(request: RestoreRequest): Promise<RunningContainer> {
    await this.#requireTool();
    const { id, folder, images } = request;
    await request.prepared;
    try {
      const written = JSON.parse(await readFile(join(images, SPEC_FILE), "utf8")) as RunscSpec;
      const pid = await this.#make(request, specForRestore(written, request));
      await request.plug(`/proc/${pid}/ns/net`);
      await this.#runsc.restore(id, folder, images);
      return this.#running(id, pid);
    } catch (cause) {
      await this.remove(id);
      throw cause;
    }
  }

  async recover(): Promise<void> {
    await endRestores(this.data);
  }

  untilWritten(id: string): Promise<void> {
    return waitForDump(toolCgroup(this.data, id, "dump"));
  }

  /** Creates a container, stopped before its first process runs. Returns the pid of its kernel. */
  async #make({ id, folder }: Pick<NewSandbox, "id" | "folder">, spec: RunscSpec): Promise<number> {
    // runsc's own error does not name the missing path.
    const missing = mountedFromOutside(spec).find(({ outside }) => !existsSync(outside));
    if (missing !== undefined) throw new Fault(500, `${missing.outside}, to be mounted at ${missing.inside}, is gone`);
    await writeFile(join(folder, "config.json"), JSON.stringify(spec), { mode: 0o600 });
    makeParent(this.data);
    return await this.#runsc.create(id, folder);
  }

  #running(id: string, pid: number): RunningContainer {
    const gofer = this.#runsc.stateOf(id)?.goferPid;
    if (gofer === undefined) throw new Fault(500, `runsc has no state of the new sandbox ${id}`);
    return { pid, rootPid: gofer };
  }

  /** runsc may have been installed after the server started. */
  async #requireTool(): Promise<void> {
    this.#version ??= await this.#runsc.version();
    if (this.#version !== undefined) return;
    throw new Fault(
      503,
      `the isolation runtime runsc is missing: ${this.#runsc.binary} does not run. ` +
        "FIX: `sandlot templates wall NAME runsc` installs it, and so does a start with SANDLOT_WALL=runsc",
    );
  }
}

/** Checks the folders that volumes are mounted on; runsc creates missing ones. No process of the sandbox runs yet. */
function requireFolders(root: string, volumes: readonly OutsideMount[]): void {
  for (const { inside } of volumes) {
    let path = root;
    for (const name of inside.split("/").filter(Boolean)) {
      path = join(path, name);
      const found = lstatSync(path, { throwIfNoEntry: false });
      if (found === undefined) break;
      if (found.isSymbolicLink()) throw pathHasLinkFault(inside);
      if (!found.isDirectory()) throw pathIsFileFault(inside);
    }
  }
}

/** In the folder itself; a symbolic link of the image is not followed. */
function markTmp({ root, ids }: Pick<NewSandbox, "root" | "ids">): void {
  const path = join(root, TMP_MARK);
  if (!lstatSync(dirname(path), { throwIfNoEntry: false })?.isDirectory()) return;
  const { O_CREAT, O_WRONLY, O_NOFOLLOW } = constants;
  closeSync(openSync(path, O_CREAT | O_WRONLY | O_NOFOLLOW, 0o600));
  chownSync(path, ids.first, ids.first);
}

function endedBefore(id: string, cause?: unknown): Fault {
  return new Fault(500, `the first process of ${id} ended before it was started`, { cause });
}
