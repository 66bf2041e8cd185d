/**
 * The floor of a create: crun with a plain configuration on an overlay over the same image. It has all namespaces of a
 * sandbox, but no seccomp filter, limits, network or guest. The root is mounted once, so that a run consists only of
 * crun's own work.
 *
 * Everything is below the server's run folder, state folder and cgroup, so that the server's teardown removes it.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../src/contract/fault.ts";
import { attempt, MINIMAL_ENV, run } from "../../src/system/command.ts";
import { HOST_ID_FIRST, ID_COUNT } from "../../src/system/id-range.ts";
import type { Context } from "../context.ts";
import { inTurns } from "../figures/samples.ts";
import { runBare } from "./program.ts";

const ID = "bench-floor";

interface PlainProgram extends AsyncDisposable {
  child: Bun.Subprocess<"pipe", "pipe", "ignore">;
  /** Rejects when it ends by itself. */
  failure: Promise<never>;
}

export class PlainContainer implements AsyncDisposable {
  private constructor(
    readonly context: Context,
    readonly folder: string,
  ) {}

  /** Uses these folders as layers, the topmost first. */
  static async make(context: Context, layers: readonly string[] = [context.image]): Promise<PlainContainer> {
    const folder = join(context.data.runFolder, ID);
    const [root, upper, work] = ["root", "upper", "work"].map((name) => join(folder, name));
    // The container's mapped root must be able to pass through.
    for (const path of [folder, root, upper, work]) mkdirSync(`${path}`, { recursive: true, mode: 0o711 });
    const options = `lowerdir=${layers.join(":")},upperdir=${upper},workdir=${work}`;
    await run(["mount", "-t", "overlay", "overlay", "-o", options, `${root}`]);
    return new PlainContainer(context, folder);
  }

  /** Creates the container, runs `true` in it, and removes it. */
  async run(): Promise<void> {
    await this.#run(ID);
  }

  /** Runs this many containers with this concurrency; by default all at once. */
  async runTogether(count: number, atOnce = count): Promise<void> {
    const ids = Array.from({ length: count }, (_, nth) => `${ID}-${nth}`);
    await inTurns(ids, atOnce, async (id) => void (await this.#run(id)));
  }

  /** Processor time of a run in milliseconds: of crun and all its descendants. */
  async runProcessorMs(): Promise<number> {
    return await this.#run(ID);
  }

  /**
   * Runs an endless program in the benchmark's network until `answered`. Returns the time, without the container's
   * removal.
   */
  async runUntil(args: readonly string[], answered: () => Promise<void>): Promise<number> {
    const begun = performance.now();
    await using program = this.start(args);
    await Promise.race([answered(), program.failure]);
    return performance.now() - begun;
  }

  /** Starts a program in the benchmark's network. Disposing it kills the program. */
  start(args: readonly string[]): PlainProgram {
    const { toolbox, data } = this.context;
    const id = `${ID}-open`;
    const crun = [...toolbox.crun, "--root", data.crunFolder];
    const child = Bun.spawn([...crun, "run", "--bundle", this.#openBundle(id, args), id], {
      stdio: ["pipe", "pipe", "ignore"],
      env: { ...MINIMAL_ENV },
    });
    const failure = child.exited.then((code) => {
      throw new Fault(500, `crun run of ${args[0]} ended with ${code} before it answered`);
    });
    failure.catch(() => undefined);
    return {
      child,
      failure,
      async [Symbol.asyncDispose]() {
        // It may have ended by itself; then crun has removed it.
        await attempt([...crun, "kill", id, "KILL"]);
        await child.exited;
      },
    };
  }

  async #run(id: string): Promise<number> {
    const { toolbox, data } = this.context;
    const bundle = this.#bundle(id, (config) => config);
    return await runBare([...toolbox.crun, "--root", data.crunFolder, "run", "--bundle", bundle, id]);
  }

  /** Written again for each program. */
  #openBundle(id: string, args: readonly string[]): string {
    rmSync(join(this.folder, "bundles", id), { recursive: true, force: true });
    return this.#bundle(id, (config) => withoutNetwork(config, args));
  }

  #bundle(id: string, change: (config: PlainConfig) => PlainConfig): string {
    const bundle = join(this.folder, "bundles", id);
    if (existsSync(bundle)) return bundle;
    mkdirSync(bundle, { recursive: true });
    const config = change(plainConfig(join(this.folder, "root"), `${this.context.data.cgroup}/${id}`));
    writeFileSync(join(bundle, "config.json"), JSON.stringify(config));
    return bundle;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run(["umount", join(this.folder, "root")]);
    await rm(this.folder, { recursive: true, force: true });
  }
}

type PlainConfig = ReturnType<typeof plainConfig> & { hostname?: string };

/**
 * Without a network namespace of its own, it cannot mount sysfs. Its hostname resolves locally, as in sandboxes:
 * Python's server looks it up, and there is no DNS.
 */
function withoutNetwork(config: PlainConfig, args: readonly string[]): PlainConfig {
  return {
    ...config,
    hostname: "localhost",
    process: { ...config.process, args: [...args] },
    mounts: config.mounts.filter(({ type }) => type !== "sysfs"),
    linux: { ...config.linux, namespaces: config.linux.namespaces.filter(({ type }) => type !== "network") },
  };
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
