/**
 * The peer of creates: podman from the distribution with its usual command line, on the same root filesystem. Its store
 * is in the server's data folder and its cgroups below the server's, so that nothing outlives the benchmark.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MINIMAL_ENV } from "../../src/system/command.ts";
import type { Context } from "../context.ts";
import { findPeer, PeerFault } from "./peer.ts";

const RUN_MS = 60_000;
/** podman raises these limits by default, which root may not be allowed to do. */
const LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
/** File locks, because locks in memory are shared with every other podman on the host and stay after its end. */
const CONFIG = `[engine]\nlock_type = "file"\nevents_logger = "none"\ncgroup_manager = "cgroupfs"\n`;

export class Podman {
  readonly #argv: string[];
  readonly #env: Record<string, string>;

  constructor({ data, image }: Context) {
    const folder = join(data.path, "podman");
    mkdirSync(folder, { recursive: true, mode: 0o711 });
    const config = join(folder, "containers.conf");
    writeFileSync(config, CONFIG);
    this.#env = { ...MINIMAL_ENV, CONTAINERS_CONF: config };
    this.#argv = [
      findPeer("podman"),
      "--root",
      join(folder, "root"),
      "--runroot",
      join(folder, "run"),
      "--tmpdir",
      join(folder, "tmp"),
      "--runtime-flag",
      `root=${join(folder, "runtime")}`,
      "run",
      "--rm",
      "--network=none",
      `--cgroup-parent=${data.cgroup}/podman`,
      ...LIMITS,
      // With an overlay over it, so that the image stays unchanged.
      "--rootfs",
      `${image}:O`,
      "echo",
      "hi",
    ];
  }

  /** Times until the output is here, and until podman has cleaned up and ended. */
  async echo(): Promise<{ outputMs: number; endMs: number }> {
    const startedMs = performance.now();
    const child = Bun.spawn(this.#argv, {
      stdio: ["ignore", "pipe", "inherit"],
      env: this.#env,
      timeout: RUN_MS,
      killSignal: "SIGKILL",
    });
    let output = "";
    let outputMs = Number.NaN;
    for await (const chunk of child.stdout) {
      output += new TextDecoder().decode(chunk);
      if (output === "hi\n") outputMs = performance.now() - startedMs;
    }
    const exitCode = await child.exited;
    if (exitCode !== 0 || Number.isNaN(outputMs)) {
      throw new PeerFault(
        "podman",
        `podman run ended with ${child.signalCode ?? exitCode} and printed ${JSON.stringify(output)}`,
      );
    }
    return { outputMs, endMs: performance.now() - startedMs };
  }
}
