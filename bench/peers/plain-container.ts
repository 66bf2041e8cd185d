/**
 * The floor: crun with a plain configuration on an overlay over the same image. All namespaces that a sandbox has, but
 * no filter, no limits, no network, no guest. The root is mounted once, so that a run is nothing but crun's own work.
 *
 * Everything lies below the server's own run folder, state folder and cgroup, so that taking the server down removes
 * it.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../src/host/system/command.ts";
import { HOST_ID_FIRST, ID_COUNT } from "../../src/host/system/id-range.ts";
import type { Context } from "../context.ts";
import { runBare } from "./program.ts";

const ID = "bench-floor";

export class PlainContainer implements AsyncDisposable {
  private constructor(
    readonly context: Context,
    readonly folder: string,
  ) {}

  static async make(context: Context): Promise<PlainContainer> {
    const folder = join(context.data.runFolder, ID);
    const [root, upper, work] = ["root", "upper", "work"].map((name) => join(folder, name));
    // For the mapped root of the container to pass through.
    for (const path of [folder, root, upper, work]) mkdirSync(`${path}`, { recursive: true, mode: 0o711 });
    const layers = `lowerdir=${context.image},upperdir=${upper},workdir=${work}`;
    await run(["mount", "-t", "overlay", "overlay", "-o", layers, `${root}`]);
    return new PlainContainer(context, folder);
  }

  /** Makes the container, runs `true` in it, and removes it. */
  async run(): Promise<void> {
    await this.#run(ID);
  }

  /** As many of them, each at once. */
  async runTogether(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, (_, nth) => this.#run(`${ID}-${nth}`)));
  }

  async #run(id: string): Promise<void> {
    const { toolbox, data } = this.context;
    const bundle = join(this.folder, "bundles", id);
    if (!existsSync(bundle)) {
      mkdirSync(bundle, { recursive: true });
      const config = plainConfig(join(this.folder, "root"), `${data.cgroup}/${id}`);
      writeFileSync(join(bundle, "config.json"), JSON.stringify(config));
    }
    await runBare([...toolbox.crun, "--root", data.crunFolder, "run", "--bundle", bundle, id]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run(["umount", join(this.folder, "root")]);
    await rm(this.folder, { recursive: true, force: true });
  }
}

function plainConfig(root: string, cgroupsPath: string) {
  const ids = [{ containerID: 0, hostID: HOST_ID_FIRST, size: ID_COUNT }];
  return {
    ociVersion: "1.0.2",
    root: { path: root, readonly: false },
    process: { terminal: false, user: { uid: 0, gid: 0 }, cwd: "/", args: ["/bin/true"], env: ["PATH=/usr/bin:/bin"] },
    mounts: [
      { destination: "/proc", type: "proc", source: "proc" },
      { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "mode=755", "size=1m"] },
      { destination: "/sys", type: "sysfs", source: "sysfs", options: ["nosuid", "noexec", "nodev", "ro"] },
    ],
    linux: {
      namespaces: ["user", "pid", "ipc", "uts", "mount", "network", "cgroup"].map((type) => ({ type })),
      uidMappings: ids,
      gidMappings: ids,
      cgroupsPath,
    },
  };
}
