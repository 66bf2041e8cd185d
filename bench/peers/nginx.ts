/**
 * The peer of file transfers: nginx from the distribution, in the network of a sandbox, on the disk of that sandbox,
 * and under its limits of memory and processors. It is reached without our server between.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../src/contract/fault.ts";
import { cgroupTrees } from "../../src/host/cgroup/cgroups.ts";
import { MINIMAL_ENV } from "../../src/host/system/command.ts";
import type { BenchSandbox } from "../bench-sandbox.ts";

/** The sandbox is our own, so any port is free. */
const PORT = 8080;
const READY_MS = 5_000;
const POLL_MS = 20;

export const NGINX_MISSING =
  "nginx is missing. To measure it: apt-get install -y --no-install-recommends nginx-light (it need not be started)";

export function findNginx(): string | undefined {
  return Bun.which("nginx") ?? undefined;
}

export class Nginx implements AsyncDisposable {
  readonly #child: Bun.Subprocess;

  private constructor(
    readonly folder: string,
    readonly url: string,
    child: Bun.Subprocess,
  ) {
    this.#child = child;
  }

  /** Serves `folder` of the sandbox, and takes files into it. */
  static async start(program: string, sandbox: BenchSandbox, folder: string): Promise<Nginx> {
    const { data } = sandbox.context;
    const own = join(data.runFolder, "bench-nginx");
    const bodies = join(sandbox.root, folder, ".nginx");
    for (const path of [own, bodies]) mkdirSync(path, { recursive: true });
    const config = join(own, "nginx.conf");
    writeFileSync(config, configuration(own, join(sandbox.root, folder), bodies));
    const network = ["nsenter", `--net=/proc/${sandbox.pids.guest}/ns/net`, "--"];
    // Should the benchmark be killed, nginx goes with it.
    const tied = ["setpriv", "--pdeathsig", "KILL", "--"];
    const child = Bun.spawn([...network, ...tied, program, "-e", "stderr", "-p", own, "-c", config], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...MINIMAL_ENV },
    });
    const nginx = new Nginx(own, `http://${sandbox.address}:${PORT}`, child);
    try {
      for (const tree of cgroupTrees())
        writeFileSync(join(tree, data.cgroup, sandbox.id, "cgroup.procs"), `${child.pid}`);
      await untilAnswering(nginx.url, child);
      return nginx;
    } catch (failure) {
      await nginx[Symbol.asyncDispose]();
      throw failure;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Throws when it ends, or does not answer in time. */
export async function untilAnswering(url: string, nginx: Bun.Subprocess): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await answers(url))) {
    if (nginx.exitCode !== null || performance.now() > deadline) {
      throw new Fault(500, `nginx does not answer at ${url}`);
    }
    await Bun.sleep(POLL_MS);
  }
}

async function answers(url: string): Promise<boolean> {
  const tls = { rejectUnauthorized: false };
  try {
    await fetch(url, { keepalive: false, signal: AbortSignal.timeout(READY_MS), tls } as RequestInit);
    return true;
  } catch {
    return false;
  }
}

/** As Debian sets it up where it matters (sendfile), with one process, and no log. */
function configuration(own: string, served: string, bodies: string): string {
  return [
    ...commonLines(own),
    // On the disk of the served files, so that a file that has arrived is only renamed.
    `  client_body_temp_path ${bodies};`,
    `  server { listen ${PORT}; location / { root ${served}; dav_methods PUT; } }`,
    "}",
    "",
  ].join("\n");
}

/** What comes before the servers; `own` is a folder for what nginx writes beside. */
export function commonLines(own: string): string[] {
  return [
    // Otherwise it gives its folders to nobody, whom a filesystem of a sandbox may not have.
    "user root;",
    "daemon off;",
    "error_log stderr crit;",
    "master_process off;",
    `pid ${own}/pid;`,
    "events {}",
    "http {",
    "  access_log off;",
    "  sendfile on;",
    "  tcp_nopush on;",
    "  client_max_body_size 0;",
    ...["proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `  ${name}_temp_path ${own}/${name};`),
  ];
}
