/** The environment of a row: the server, the host's tools, and waiting until a fair measurement is possible. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../src/contract/fault.ts";
import { authorityFile } from "../src/host/testing/outer-network.ts";
import { imageFolder } from "../src/images/image-folder.ts";
import { readPoolReport } from "../src/sandbox/pool/pool-report.ts";
import { BASE_IMAGE } from "../src/setup/base-image.ts";
import { DataFolder } from "../src/system/data-folder.ts";
import { Toolbox } from "../src/system/toolbox.ts";
import { type Address, READY_SANDBOXES } from "./bench-server.ts";
import type { Options } from "./options.ts";
import type { Peer } from "./peers/peer.ts";
import { layoutIn, SMALL_IMAGE } from "./sandboxes/small-image.ts";

/** Sent by main.ts. */
export interface Task extends Options, Address {
  dataFolder: string;
  cacheFolder: string;
  /** Identifies the benchmark's network. */
  outerNetwork: string;
  /** Why peer programs that a row needs are missing. */
  missing: Partial<Record<Peer, string>>;
}

const READY_MS = 60_000;
/** Longer than the server's delay before it boots the next sandbox. */
const SETTLED_MS = 300;
const POLL_MS = 5;
/** A heavy round takes about as long as this many others. */
const HEAVY = 5;
const HEAVY_ROUNDS_MIN = 2;
const MIB = 1024 ** 2;

export class Context {
  readonly rounds: number;
  /** Rounds of rows that move so many bytes that a few rounds are enough. */
  readonly heavyRounds: number;
  /** Whether heavy rows use their full size and time. */
  readonly long: boolean;
  /** Whether to measure only a little. */
  readonly quick: boolean;
  /** Bytes that a heavy row moves in one round. */
  readonly heavyBytes: number;
  readonly data: DataFolder;
  readonly toolbox: Toolbox;
  /** The root filesystem of all sandboxes and peers. */
  readonly image: string;
  /** Holds the root filesystems of all templates. */
  readonly cacheFolder: string;
  /** Number of sandboxes that the server keeps ready: of `base`, and of templates that rows have built. */
  keptReady = READY_SANDBOXES;
  /** A small image, and the layout that the server uses for it. */
  readonly smallImage = SMALL_IMAGE;
  readonly smallImageLayout: string;
  /** As in `Task`. */
  readonly outerNetwork: string;
  /** The CA certificate of the web sites in that network. */
  readonly authority: string;
  /** Options of the SDK. */
  readonly sdk: { apiUrl: string; sandboxUrl: string; apiKey: string };

  constructor(readonly task: Task) {
    this.rounds = task.rounds;
    this.heavyRounds = Math.max(HEAVY_ROUNDS_MIN, Math.ceil(task.rounds / HEAVY));
    this.long = task.long;
    this.quick = task.quick;
    this.heavyBytes = heavyMiB(task) * MIB;
    this.data = new DataFolder(task.dataFolder);
    this.toolbox = new Toolbox(task.cacheFolder);
    this.smallImageLayout = layoutIn(task.dataFolder);
    this.cacheFolder = task.cacheFolder;
    this.image = imageFolder(task.cacheFolder, BASE_IMAGE);
    this.outerNetwork = task.outerNetwork;
    this.authority = authorityFile(task.outerNetwork);
    this.sdk = { apiUrl: task.url, sandboxUrl: task.url, apiKey: task.apiKey };
  }

  /** Calls the management API like any HTTP client; returns the parsed body, if there is one. */
  async call(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(`${this.sdk.apiUrl}${path}`, {
      method,
      headers: { "X-API-Key": this.sdk.apiKey, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Fault(500, `${method} ${path} was answered with ${response.status}: ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /**
   * Waits until the server has all its sandboxes ready, and so nothing more to do. It tells nobody, so this looks at
   * its run folder: a sandbox that is ready has a record and no longer any disk in the host's view, and its report says
   * that none is being made. It may keep more than it must; then it has nothing to do when they stay as many.
   */
  async untilReady(): Promise<void> {
    const running = (await this.call("GET", "/v2/sandboxes")) as unknown[];
    const least = running.length + this.keptReady;
    const deadline = performance.now() + READY_MS;
    let seen = { all: 0, sinceMs: 0 };
    for (;;) {
      const { all, booted, making } = this.#counted();
      if (all === booted && all === least && making === 0) return;
      if (all !== booted || all !== seen.all || making > 0) seen = { all, sinceMs: performance.now() };
      if (all > least && performance.now() - seen.sinceMs > SETTLED_MS) return;
      if (performance.now() > deadline) throw new Fault(500, `no ready sandbox within ${READY_MS} ms`);
      await Bun.sleep(POLL_MS);
    }
  }

  #counted(): { all: number; booted: number; making: number } {
    const folders = readdirSync(this.data.sandboxesFolder).map((id) => join(this.data.sandboxesFolder, id));
    const booted = folders.filter((path) => existsSync(join(path, "record.json")) && !existsSync(join(path, "disk")));
    const making = readPoolReport(this.data)?.templates.reduce((sum, each) => sum + each.making, 0) ?? 0;
    return { all: folders.length, booted: booted.length, making };
  }
}

function heavyMiB({ long, quick }: Options): number {
  if (long) return 1024;
  return quick ? 64 : 256;
}
