/**
 * A crun sandbox that runs the attacks of the folder `inside` as its first process, without server, guest or network.
 * The test edits its runtime specification first (src/host/testing/spec-edits.ts).
 */
import { chownSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import { EditingToolbox } from "../../../src/host/testing/edited-crun.ts";
import { FOUND, PROGRAM } from "../../../src/host/testing/spec-edits.ts";
import { HIDDEN_IN_PROC } from "../../../src/images/guest-layout.ts";
import { imageFolder } from "../../../src/images/image-folder.ts";
import { CrunRuntime } from "../../../src/sandbox/runtime/crun/crun-runtime.ts";
import { BASE_IMAGE } from "../../../src/setup/base-image.ts";
import { guestFolder } from "../../../src/setup/guest-folder.ts";
import { removeCgroups } from "../../../src/system/cgroup/removal.ts";
import { attempt, run } from "../../../src/system/command.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { HOST_ID_FIRST, SHARED_IDS } from "../../../src/system/id-range.ts";
import { Mounts } from "../../../src/system/mount/mounts.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { CACHE } from "../../support/cache.ts";
import { newDataFolder } from "../../support/server.ts";
import { until } from "../../support/until.ts";

const INSIDE = join(import.meta.dir, "inside");

export class BareSandbox implements AsyncDisposable {
  readonly #data: DataFolder;
  readonly #mounts = new Mounts();
  readonly #folder: string;
  readonly root: string;

  constructor(readonly id: string) {
    this.#data = new DataFolder(newDataFolder(`bare-${id}`));
    this.#folder = join(this.#data.runFolder, id);
    this.root = join(this.#folder, "root");
  }

  /** The findings of the attacks, as they wrote them. `prepare` changes the root before anything runs in it. */
  async attacked(
    edits: ConstructorParameters<typeof EditingToolbox>[1],
    prepare: (root: string) => void = () => undefined,
  ): Promise<string> {
    await this.#mountRoot();
    prepare(this.root);
    const guest = edits.includes("weakened") ? this.#emptyGuest() : guestFolder(new Toolbox(CACHE));
    const runtime = await CrunRuntime.open(new EditingToolbox(CACHE, edits), this.#data, this.#mounts);
    const [bootIdFile, controlSecretFile] = ["boot-id", "control-secret"].map((name) => join(this.#folder, name));
    for (const path of [bootIdFile, controlSecretFile]) writeFileSync(String(path), crypto.randomUUID());
    await runtime.create({
      id: this.id,
      folder: this.#folder,
      root: this.root,
      cgroup: `${this.#data.cgroup}/${this.id}`,
      size: { cpuCount: BASE_TEMPLATE.cpuCount, memoryMB: BASE_TEMPLATE.memoryMB, processors: undefined },
      hostname: "e2b.local",
      guestFolder: guest,
      meminfoFile: undefined,
      bootIdFile: String(bootIdFile),
      controlSecretFile: String(controlSecretFile),
      volumes: [],
      copy: false,
      ids: SHARED_IDS,
      openFilesMax: 1024,
      userLimits: [],
    });
    await runtime.start(this.id);
    const found = join(this.root, FOUND);
    await until("the attacks are over", () => existsSync(found));
    await runtime.remove(this.id);
    return readFileSync(found, "utf8");
  }

  async #mountRoot(): Promise<void> {
    this.#data.makeRunFolder();
    mkdirSync(this.root, { recursive: true, mode: 0o711 });
    const layer = join(this.#folder, "layer");
    mkdirSync(layer, { mode: 0o711 });
    await run(["mount", "-t", "tmpfs", "-o", "mode=711,size=1000g,nr_inodes=0", "none", layer]);
    for (const name of ["upper", "work"]) mkdirSync(join(layer, name), { mode: 0o755 });
    chownSync(join(layer, "upper"), HOST_ID_FIRST, HOST_ID_FIRST);
    const layers = `lowerdir=${imageFolder(CACHE, BASE_IMAGE)},upperdir=${layer}/upper,workdir=${layer}/work`;
    await run(["mount", "-t", "overlay", "overlay", "-o", layers, this.root]);
    const program = join(this.root, PROGRAM, "..");
    cpSync(INSIDE, program, { recursive: true });
    chownSync(program, HOST_ID_FIRST, HOST_ID_FIRST);
  }

  /** A guest folder of its own, because an attacker that escapes could change the one other sandboxes use. */
  #emptyGuest(): string {
    const folder = join(this.#folder, "guest");
    for (const name of ["bin", "sys", ...HIDDEN_IN_PROC.map((hidden) => `empty/${hidden}`)]) {
      mkdirSync(join(folder, name), { recursive: true });
    }
    writeFileSync(join(folder, "bin/init"), "");
    return folder;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#mounts.close();
    await removeCgroups(this.#data.cgroup);
    for (const path of [this.root, join(this.#folder, "layer")]) await attempt(["umount", "--lazy", path]);
    for (const path of [this.#data.runFolder, this.#data.path]) rmSync(path, { recursive: true, force: true });
  }
}
