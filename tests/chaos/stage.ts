/** A real server that is killed and restarted on the same data folder, and its state as visible from outside. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ANY_INTERFACE } from "../../src/sandbox/network/slot-chains.ts";
import { freezerOf } from "../../src/system/cgroup/freezer.ts";
import { tagOf } from "../support/census.ts";
import { startServer, type TestServer } from "../support/server.ts";

const ASK_MS = 120_000;

/** The response to a request; undefined if the server was gone before it responded. */
export interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: the caller knows the response of the route.
  body: any;
}

export class Stage {
  #server: TestServer;

  private constructor(
    readonly dataFolder: string,
    readonly settings: Record<string, string>,
    server: TestServer,
  ) {
    this.#server = server;
  }

  static async open(dataFolder: string, settings: Record<string, string> = {}): Promise<Stage> {
    const all = { SANDLOT_READY: "0", ...settings };
    return new Stage(dataFolder, all, await startServer(dataFolder, all));
  }

  get server(): TestServer {
    return this.#server;
  }

  get tag(): string {
    return tagOf(this.dataFolder);
  }

  /** SIGKILL and a new start. */
  async restart(): Promise<void> {
    await this.#server.crash();
    this.#server = await startServer(this.dataFolder, this.settings);
  }

  async close(): Promise<void> {
    await this.#server.stop();
  }

  async ask(method: string, path: string, body?: unknown): Promise<Answer | undefined> {
    try {
      const response = await fetch(`${this.#server.url}${path}`, {
        method,
        headers: { "x-api-key": this.#server.apiKey, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        keepalive: false,
        signal: AbortSignal.timeout(ASK_MS),
      });
      const text = await response.text();
      return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
    } catch (error) {
      if (error instanceof Error && error.name === "TimeoutError") throw error;
      return undefined;
    }
  }

  /** Ids of all sandboxes that clients see, with the state of each. */
  async listed(): Promise<Map<string, string>> {
    const answer = await this.ask("GET", "/v2/sandboxes?state=running,paused&limit=100");
    if (answer?.status !== 200) throw new Error(`the list was answered ${answer?.status}`);
    return new Map(answer.body.map((each: { sandboxID: string; state: string }) => [each.sandboxID, each.state]));
  }

  get runFolders(): string {
    return `/run/sandlot/${this.tag}/sandboxes`;
  }

  /** Checkpoints lie on a filesystem that is mounted in the server's own view only. */
  get checkpoints(): string {
    return `/proc/${this.#server.pid}/root${this.dataFolder}/disks/checkpoints`;
  }

  /** Names of the interfaces that lead to sandboxes; empty if the server is gone. */
  interfaces(): string[] {
    const table = `/proc/${this.#server.pid}/net/dev`;
    if (!existsSync(table)) return [];
    const names = readFileSync(table, "utf8")
      .split("\n")
      .map((line) => (line.split(":")[0] ?? "").trim());
    return names.filter((name) => name.startsWith(`${ANY_INTERFACE}${this.tag}-`));
  }

  /** Processes of a cgroup of this server, such as that of a sandbox; empty without such a cgroup. */
  processesIn(name: string): number[] {
    try {
      const file = join(freezerOf(`/sandlot/${this.tag}/${name}`), "cgroup.procs");
      return readFileSync(file, "utf8").trim().split("\n").filter(Boolean).map(Number);
    } catch {
      return [];
    }
  }

  cgroups(): string[] {
    return namesIn(freezerOf(`/sandlot/${this.tag}`));
  }
}

export function namesIn(folder: string): string[] {
  try {
    return existsSync(folder) ? readdirSync(folder) : [];
  } catch {
    // It went away while we looked.
    return [];
  }
}
