/** The server under measurement: started as a user would, inside the benchmark's network, on its own data folder. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { serverEnv } from "../src/cli/testing/server-env.ts";
import { Fault } from "../src/contract/fault.ts";
import { isRunning } from "../src/host/testing/outer-network.ts";
import { run } from "../src/system/command.ts";
import { DataFolder } from "../src/system/data-folder.ts";
import { MountNamespace } from "../src/system/mount/mount-namespace.ts";
import { Toolbox } from "../src/system/toolbox.ts";
import { LocalAuthority } from "../src/tls/local-authority.ts";
import { layoutIn, SMALL_IMAGE, writeSmallImage } from "./sandboxes/small-image.ts";

/** Not a tmpfs: it holds the disks of sandboxes. */
const ROOT = "/var/tmp";
const FOLDER = /^sandlot-bench-(\d+)-\d+$/;
/** Servers of this process so far. */
let servers = 0;
const COMMAND = [process.execPath, join(import.meta.dir, "../src/cli/main.ts")];
/** The network is private, so any port is free. */
const LISTEN = "127.0.0.1:3000";
const READY_MS = 60_000;
const DOWN_MS = 120_000;
const LOG_SHOWN_CHARS = 4_000;

/** Domain of the TLS listener, which uses its default port. */
export const LOCAL_DOMAIN = "sandlot.localhost";
/** The server's minimum number of ready sandboxes; rows wait for them between creates. */
export const READY_SANDBOXES = 2;

export interface Address {
  url: string;
  apiKey: string;
}

export class BenchServer {
  readonly folder = join(ROOT, `sandlot-bench-${process.pid}-${++servers}`);
  #child: Bun.Subprocess<"ignore", "pipe", Bun.BunFile> | undefined;

  constructor(
    /** A command line prefix that enters the network. */
    readonly network: readonly string[],
    readonly cacheFolder: string,
    /** Settings besides the usual ones. */
    readonly settings: Record<string, string> = {},
  ) {}

  async start(interrupted: AbortSignal): Promise<void> {
    mkdirSync(this.folder, { mode: 0o700 });
    writeSmallImage(new Toolbox(this.cacheFolder), layoutIn(this.folder));
    // A server with an explicit port runs beside another one, which has the TLS listener.
    if (this.settings.SANDLOT_LISTEN === undefined && Bun.which("openssl") !== null)
      await new LocalAuthority(this.folder).renew(LOCAL_DOMAIN, Date.now());
    const log = join(this.folder, "server.log");
    this.#child = Bun.spawn([...this.network, ...COMMAND, "up"], {
      env: environment(this.folder, this.cacheFolder, this.settings),
      stdin: "ignore",
      stdout: "pipe",
      stderr: Bun.file(log),
      // A process group of its own, so that the trials of `up` end with it.
      detached: true,
    });
    const giveUp = () => this.#kill();
    const late = setTimeout(giveUp, READY_MS);
    interrupted.addEventListener("abort", giveUp);
    const ready = await says(this.#child.stdout, "Sandlot is ready");
    interrupted.removeEventListener("abort", giveUp);
    clearTimeout(late);
    if (ready) return;
    throw new Fault(500, `the server did not start:\n${readFileSync(log, "utf8").slice(-LOG_SHOWN_CHARS)}`);
  }

  get address(): Address {
    return {
      url: `http://${this.settings.SANDLOT_LISTEN ?? LISTEN}`,
      apiKey: readFileSync(join(this.folder, "api-key"), "utf8").trim(),
    };
  }

  /** A command line prefix that enters the server's network and mount namespace. */
  get enter(): string[] {
    return [...this.network, ...new MountNamespace(new DataFolder(this.folder)).enterCommand];
  }

  async remove(): Promise<void> {
    await teardown(this.folder, this.network, this.cacheFolder);
  }

  #kill(): void {
    if (this.#child !== undefined && this.#child.exitCode === null) process.kill(-this.#child.pid, "SIGKILL");
  }

  /** Removes remains of killed runs. */
  static async removeStale(network: readonly string[], cacheFolder: string): Promise<void> {
    for (const name of readdirSync(ROOT)) {
      const pid = Number(FOLDER.exec(name)?.[1]);
      if (pid > 0 && !isRunning(pid)) await teardown(join(ROOT, name), network, cacheFolder);
    }
  }
}

async function teardown(folder: string, network: readonly string[], cacheFolder: string): Promise<void> {
  if (!existsSync(folder)) return;
  // The doctor's trial is a separate server on a folder in this one.
  const trials = readdirSync(folder).filter((name) => name.startsWith(".trial-"));
  for (const path of [...trials.map((name) => join(folder, name)), folder]) {
    if (!existsSync(join(path, "server.json"))) continue;
    await run([...network, ...COMMAND, "down"], { env: environment(path, cacheFolder), timeoutMs: DOWN_MS });
  }
  for (const path of [folder, `${folder}-trust`]) await rm(path, { recursive: true, force: true, maxRetries: 10 });
}

function environment(
  folder: string,
  cacheFolder: string,
  settings: Record<string, string> = {},
): Record<string, string> {
  return serverEnv(folder, {
    SANDLOT_CACHE: cacheFolder,
    SANDLOT_LISTEN: LISTEN,
    SANDLOT_IMAGES: `${SMALL_IMAGE}=layout:${layoutIn(folder)}`,
    ...settings,
  });
}

/** False: the stream ended without the text. */
async function says(stream: ReadableStream<Uint8Array>, wanted: string): Promise<boolean> {
  const decoder = new TextDecoder();
  let text = "";
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    text += decoder.decode(value, { stream: true });
    if (text.includes(wanted)) return true;
  }
}
