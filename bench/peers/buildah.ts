/**
 * The peer of builds: buildah from the distribution with Sandlot's crun, on the same base layout. Its store is in the
 * server's data folder and its cgroups below the server's, so that nothing outlives the benchmark.
 */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MINIMAL_ENV, run } from "../../src/system/command.ts";
import type { Context } from "../context.ts";
import { findPeer, PeerFault } from "./peer.ts";

const BUILD_MS = 60_000;
/** buildah raises these limits by default, which root may not be allowed to do. */
const LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
const CONFIG = `[engine]\nlock_type = "file"\nevents_logger = "none"\ncgroup_manager = "cgroupfs"\n`;
/** The layout is the benchmark's own and unsigned. */
const POLICY = JSON.stringify({ default: [{ type: "insecureAcceptAnything" }] });

export class Buildah {
  readonly #argv: string[];
  readonly #env: Record<string, string>;
  readonly #folder: string;
  readonly #layout: string;

  constructor({ data, toolbox, smallImageLayout }: Context) {
    const folder = join(data.path, "buildah");
    mkdirSync(join(folder, "context"), { recursive: true, mode: 0o711 });
    const [config, policy, crun] = ["containers.conf", "policy.json", "crun"].map((name) => join(folder, name));
    writeFileSync(`${config}`, CONFIG);
    writeFileSync(`${policy}`, POLICY);
    // buildah accepts a program name without arguments.
    writeFileSync(`${crun}`, `#!/bin/sh\nexec ${toolbox.crun.join(" ")} "$@"\n`);
    chmodSync(`${crun}`, 0o755);
    this.#folder = folder;
    this.#layout = smallImageLayout;
    this.#env = { ...MINIMAL_ENV, CONTAINERS_CONF: `${config}`, TMPDIR: folder };
    const store = ["--root", join(folder, "root"), "--runroot", join(folder, "run"), "--storage-driver", "overlay"];
    const runtime = ["--runtime", `${crun}`, "--runtime-flag", `root=${join(folder, "runtime")}`];
    this.#argv = [
      findPeer("buildah"),
      ...store,
      "bud",
      `--signature-policy=${policy}`,
      "--isolation=oci",
      "--network=none",
      `--cgroup-parent=${data.cgroup}/buildah`,
      ...runtime,
      ...LIMITS,
      "--no-cache",
      "--tag=bench",
    ];
  }

  /** Each command is a step. With `layers`, the result of each step is kept. */
  async build(commands: readonly string[], layers: boolean): Promise<void> {
    const lines = [`FROM oci:${this.#layout}`, ...commands.map((command) => `RUN ${command}`)];
    writeFileSync(join(this.#folder, "context/Dockerfile"), `${lines.join("\n")}\n`);
    const argv = [...this.#argv, `--layers=${layers}`, join(this.#folder, "context")];
    await run(argv, { env: this.#env, timeoutMs: BUILD_MS }).catch((failure: Error) => {
      throw new PeerFault("buildah", failure.message);
    });
  }
}
