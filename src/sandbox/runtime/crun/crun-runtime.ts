/** The isolation runtime crun, with CRIU for checkpoints. crun knows nothing of a restored sandbox. */
import { chmodSync, chownSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { described, stderrLog } from "../../../base/log.ts";
import { Fault } from "../../../contract/fault.ts";
import { cgroupLayout } from "../../../system/cgroup/cgroups.ts";
import { thaw } from "../../../system/cgroup/freezer.ts";
import { reserveForMachine } from "../../../system/cgroup/machine-share.ts";
import { memoryInUse, memoryOfEach } from "../../../system/cgroup/memory-in-use.ts";
import { removeCgroups } from "../../../system/cgroup/removal.ts";
import type { DataFolder } from "../../../system/data-folder.ts";
import { HOST_ID_FIRST } from "../../../system/id-range.ts";
import { mountPointsIn } from "../../../system/mount/mount-namespace.ts";
import type { Mounts } from "../../../system/mount/mounts.ts";
import { readOnlyView } from "../../../system/mount-calls.ts";
import { MERGEABLE_ALIKE } from "../../../system/page-merging.ts";
import type { Toolbox } from "../../../system/toolbox.ts";
import { limitUsers } from "../../../system/user-limits.ts";
import type {
  CheckpointRequest,
  CreatedContainer,
  FailedTry,
  ImageFacts,
  NewSandbox,
  OpenFile,
  OutsideMount,
  RestoreRequest,
  RunningContainer,
  Runtime,
  StoppedSandbox,
} from "../runtime.ts";
import { endRestores, makeParent, sandboxCgroups } from "../tool-work.ts";
import { pathHasLinkFault, pathIsFileFault } from "../volume-fault.ts";
import { CompiledFilter } from "./compiled-filter.ts";
import { Criu } from "./criu.ts";
import { removeRestoreFolders } from "./criu-leftovers.ts";
import { Crun } from "./crun.ts";
import { requireCheckpointable } from "./dump-precheck.ts";
import { adaptImage } from "./image/adapted-image.ts";
import { type CriuFacts, criuFacts, mismatch } from "./image/image-facts.ts";
import { openFilesIn } from "./image/image-open-files.ts";
import { removedSegments, removeSegments } from "./image/image-segments.ts";
import { tooLarge } from "./image/image-watch.ts";
import { wipeForCopies } from "./image/image-wiping.ts";
import { areIpcBoundsOwn, boundIpc } from "./image/lasting-memory.ts";
import { mountedFromOutside, ociSpec, specText } from "./oci-spec.ts";
import { limitRestored, makeCgroupForRestore } from "./restored-limits.ts";

/** CRIU stores each TCP connection in a file with this name. */
const CONNECTION_FILE = /^tcp-stream-/;

export class CrunRuntime implements Runtime {
  readonly showsProcesses = true;
  readonly keepsConnections = true;
  readonly choosesSource = false;
  readonly imageFacts: CriuFacts;
  readonly #filter = new CompiledFilter();

  private constructor(
    private readonly data: DataFolder,
    private readonly mounts: Mounts,
    private readonly crun: Crun,
    private readonly criu: Criu,
  ) {
    this.imageFacts = criuFacts(criu.version);
  }

  static async open(toolbox: Toolbox, data: DataFolder, mounts: Mounts): Promise<CrunRuntime> {
    const crun = new Crun({ crun: safeToRun(toolbox), binFolder: toolbox.binFolder }, data.crunFolder);
    return new CrunRuntime(data, mounts, crun, await Criu.open(toolbox, data));
  }

  async create(sandbox: NewSandbox): Promise<CreatedContainer> {
    const cgroupV1 = cgroupLayout() !== "v2";
    const spec = ociSpec({ ...sandbox, cgroupV1 });
    const filter = this.#filter.base64;
    writeFileSync(join(sandbox.folder, "config.json"), specText(spec, filter), { mode: 0o600 });
    makeParent(this.data);
    const prefix = sandbox.sharesMemory ? MERGEABLE_ALIKE : [];
    const pid = await this.crun.create(sandbox.id, sandbox.folder, prefix).catch((cause: unknown) => {
      throw volumeFault(sandbox.volumes, cause) ?? cause;
    });
    this.#filter.check(join(this.crun.stateFolder, sandbox.id), filter);
    requireInPlace(pid, sandbox.volumes);
    // Not set by the spec: crun would apply them before it creates the user namespace, and then they would limit the
    // namespace as a whole.
    limitUsers(pid, sandbox.userLimits);
    if (!areIpcBoundsOwn()) boundIpcOrLog(pid, sandbox);
    return { pid, rootPid: pid, mounts: mountedFromOutside(spec) };
  }

  async start(id: string): Promise<void> {
    this.crun.start(id);
  }

  async remove(id: string, withinMs?: number): Promise<void> {
    const cgroup = `${this.data.cgroup}/${id}`;
    // First, because crun would wait indefinitely for a process that does not end.
    await removeCgroups(cgroup, new Set(), withinMs);
    await this.crun.remove(id);
    // A killed crun may have made a process that was in no cgroup at the first call.
    await removeCgroups(cgroup, new Set(), withinMs);
  }

  async list(): Promise<string[]> {
    return [...new Set([...(await this.crun.list()), ...(await sandboxCgroups(this.data))])];
  }

  requireCheckpointable(cgroup: string): Promise<void> {
    return requireCheckpointable(cgroup);
  }

  /** CRIU writes the memory of each process separately, including pages shared since a fork. */
  async imageBytes(cgroup: string, maxBytes: number): Promise<number> {
    const ofEach = await memoryOfEach(cgroup, maxBytes);
    if (ofEach > maxBytes) throw tooLarge(maxBytes);
    return Math.max(ofEach, memoryInUse(cgroup));
  }

  async checkpoint(request: CheckpointRequest, earlier?: FailedTry): Promise<StoppedSandbox> {
    // CRIU reads the image from inside the user namespace: first as the host's root without its capabilities (the
    // owner), then as the mapped root (the group, which new files inherit). It enters through an open descriptor, so
    // the path itself can stay closed to the mapped root and all others.
    chownSync(request.images, 0, HOST_ID_FIRST);
    chmodSync(request.images, 0o2750);
    return await this.criu.stop(request, earlier);
  }

  async unfreeze(_id: string, cgroup: string): Promise<void> {
    thaw(cgroup);
  }

  wipeForCopies(images: string): Promise<void> {
    return wipeForCopies(images);
  }

  mismatch(written: ImageFacts): string | undefined {
    return mismatch(written, this.imageFacts);
  }

  holdsConnections(files: readonly string[]): boolean {
    return files.some((name) => CONNECTION_FILE.test(name));
  }

  openFiles(images: string, folder: string): OpenFile[] {
    return openFilesIn(images, [folder]);
  }

  async restore({ size, plug, grown, ids, ...request }: RestoreRequest): Promise<RunningContainer> {
    makeParent(this.data);
    makeCgroupForRestore(request.cgroup, size);
    // CRIU takes a while to start; the image is adapted meanwhile.
    const adapting = adaptImage(request.images, { ids, grown, folder: request.folder }, this.mounts);
    const images = adapting.then(({ folder }) => folder);
    images.catch(() => undefined);
    try {
      const plugFirst = (first: number) => plug(`/proc/${first}/ns/net`);
      const pid = await this.criu.restore({ ...request, images, plug: plugFirst });
      limitRestored(request.cgroup, size);
      await removeSegments(pid, removedSegments(request.images));
      return { pid, rootPid: pid, left: (await adapting).mounted };
    } catch (cause) {
      await adapting.then(
        (adapted) => adapted[Symbol.asyncDispose](),
        () => undefined,
      );
      throw cause;
    }
  }

  async recover(): Promise<void> {
    reserveForMachine(this.data.cgroup);
    await endRestores(this.data);
    removeRestoreFolders();
  }

  untilWritten(id: string): Promise<void> {
    return this.criu.untilWritten(id);
  }

  close(): Promise<void> {
    return this.criu.close();
  }
}

/**
 * A sandbox that gets hold of the crun binary must not be able to change it. To prevent that, crun would first
 * re-execute itself from a sealed copy, which takes half of its time, unless it already runs from a read-only mount.
 */
function safeToRun({ crun, toolFolder }: Toolbox): string[] {
  try {
    const view = readOnlyView(toolFolder);
    return crun.map((part) => (part.startsWith(`${toolFolder}/`) ? view + part.slice(toolFolder.length) : part));
  } catch {
    // On a kernel without this kind of mount, crun protects itself.
    return crun;
  }
}

/** An unusual kernel may refuse these settings; the sandbox starts anyway. */
function boundIpcOrLog(pid: number, { id, size }: NewSandbox): void {
  try {
    boundIpc(pid, size.memoryMB);
  } catch (error) {
    const event = "System V memory of a sandbox is not limited";
    stderrLog.write({ level: "warn", event, sandbox: id, error: described(error) });
  }
}

/** crun's error for a mount on, or below, a file of the image. */
const NO_FOLDER = /: (?:Not a directory|File exists)\b/;

function volumeFault(volumes: readonly OutsideMount[], cause: unknown): Fault | undefined {
  const message = Fault.from(cause).message;
  if (!NO_FOLDER.test(message)) return undefined;
  const volume = volumes.find(({ inside }) => message.includes(`\`${inside.slice(1)}\``));
  return volume && pathIsFileFault(volume.inside, cause);
}

/** crun follows symbolic links of the image, so a volume could end up elsewhere. */
function requireInPlace(pid: number, volumes: readonly OutsideMount[]): void {
  if (volumes.length === 0) return;
  const there = new Set(mountPointsIn(readFileSync(`/proc/${pid}/mountinfo`, "utf8")));
  const astray = volumes.find(({ inside }) => !there.has(inside));
  if (astray !== undefined) throw pathHasLinkFault(astray.inside);
}
