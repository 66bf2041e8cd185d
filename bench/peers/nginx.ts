/**
 * nginx from the distribution, with one process and no log: the peer of file transfers, a web site, and a TLS proxy.
 * The caller provides its configuration.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { cgroupTrees } from "../../src/system/cgroup/cgroups.ts";
import { MINIMAL_ENV } from "../../src/system/command.ts";
import type { CertificateFiles } from "../../src/tls/certificate.ts";
import type { Context } from "../context.ts";
import type { BenchSandbox } from "../sandboxes/bench-sandbox.ts";
import { findPeer, PeerFault } from "./peer.ts";

/** The sandbox is the benchmark's own, so any port is free. */
const FILES_PORT = 8080;
const READY_MS = 5_000;
const POLL_MS = 20;

interface Serving {
  /** Unique among the running instances. */
  name: string;
  /** A command line prefix that enters its network. */
  enter?: readonly string[];
  /** Responds when nginx is ready. */
  url: string;
  /** Folder of request bodies; by default its own. */
  bodies?: string;
  /** Lines of its `http` block. */
  http: readonly string[];
}

export class Nginx implements AsyncDisposable {
  private constructor(
    readonly folder: string,
    readonly url: string,
    readonly child: Bun.Subprocess,
  ) {}

  static async start({ data }: Context, serving: Serving): Promise<Nginx> {
    const nginx = Nginx.#spawn(data.runFolder, serving);
    return await nginx.#orNothing(() => nginx.#ready());
  }

  /**
   * Serves `folder` of the sandbox and accepts uploads: in the sandbox's network, on its disk, and under its limits of
   * memory and processors. Clients reach it without Sandlot's server.
   */
  static async startInSandbox(sandbox: BenchSandbox, folder: string): Promise<Nginx> {
    const { data } = sandbox.context;
    const served = join(sandbox.root, folder);
    const bodies = join(served, ".nginx");
    mkdirSync(bodies, { recursive: true });
    const nginx = Nginx.#spawn(data.runFolder, {
      name: "files",
      enter: ["nsenter", `--net=/proc/${sandbox.pids.guest}/ns/net`, "--"],
      url: `http://${sandbox.address}:${FILES_PORT}`,
      // On the disk of the served files, so that an upload is only renamed.
      bodies,
      http: [
        "sendfile on;",
        "tcp_nopush on;",
        "client_max_body_size 0;",
        `server { listen ${FILES_PORT}; location / { root ${served}; dav_methods PUT; } }`,
      ],
    });
    return await nginx.#orNothing(async () => {
      const { pid } = nginx.child;
      for (const tree of cgroupTrees()) writeFileSync(join(tree, data.cgroup, sandbox.id, "cgroup.procs"), `${pid}`);
      await nginx.#ready();
    });
  }

  static #spawn(runFolder: string, { name, enter = [], url, bodies, http }: Serving): Nginx {
    const own = join(runFolder, `bench-nginx-${name}`);
    mkdirSync(own, { recursive: true });
    const config = join(own, "nginx.conf");
    writeFileSync(config, configuration(own, bodies ?? join(own, "bodies"), http));
    // nginx dies with the benchmark.
    const tied = ["setpriv", "--pdeathsig", "KILL", "--"];
    const child = Bun.spawn([...enter, ...tied, findPeer("nginx"), "-e", "stderr", "-p", own, "-c", config], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...MINIMAL_ENV },
    });
    return new Nginx(own, url, child);
  }

  async #orNothing(work: () => Promise<void>): Promise<this> {
    try {
      await work();
      return this;
    } catch (failure) {
      await this[Symbol.asyncDispose]();
      throw failure;
    }
  }

  async #ready(): Promise<void> {
    const deadline = performance.now() + READY_MS;
    while (!(await answers(this.url))) {
      if (this.child.exitCode !== null || performance.now() > deadline) {
        throw new PeerFault("nginx", `it does not answer at ${this.url}`);
      }
      await Bun.sleep(POLL_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill("SIGKILL");
    await this.child.exited;
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Lines of a `server` block with TLS. */
export function speaksTls(listen: string, { cert, key }: CertificateFiles): string[] {
  return [`listen ${listen} ssl;`, `ssl_certificate ${cert};`, `ssl_certificate_key ${key};`];
}

async function answers(url: string): Promise<boolean> {
  try {
    // This checks that nginx responds, not its certificate.
    const tls = { rejectUnauthorized: false };
    await fetch(url, { keepalive: false, signal: AbortSignal.timeout(READY_MS), tls });
    return true;
  } catch {
    return false;
  }
}

/** Connections last as long as their clients keep them. */
function configuration(own: string, bodies: string, http: readonly string[]): string {
  const scratch = ["proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${own}/${name};`);
  const keep = ["keepalive_requests 1000000;", "keepalive_timeout 600s;"];
  const all = ["access_log off;", `client_body_temp_path ${bodies};`, ...keep, ...scratch, ...http];
  return [
    // The starting user: nginx changes the owner of folders to its user, and a sandbox's disk cannot hold every user
    // of the host.
    "user root;",
    "daemon off;",
    "error_log stderr crit;",
    "master_process off;",
    `pid ${own}/pid;`,
    "events {}",
    "http {",
    ...all.map((line) => `  ${line}`),
    "}",
    "",
  ].join("\n");
}
