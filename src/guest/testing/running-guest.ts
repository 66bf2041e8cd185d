/**
 * A real guest for tests: the daemon as a child process on a free port with its own state folder, and ways to call it.
 * Calls are made by hand in JSON, as SDKs do, or through a Connect client in binary.
 */
import { chownSync, writeFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { createFetchClient } from "@connectrpc/connect/protocol";
import { createTransport } from "@connectrpc/connect/protocol-connect";
import { freePort } from "../../base/testing/free-port.ts";
import { until } from "../../base/testing/until.ts";
import { CONTROL_SECRET_HEADER, type GuestSettings } from "../../contract/runtime/guest-control.ts";

const NOBODY = 65_534;

export const SECRET = "test-secret-of-the-host";

/** One envelope: a message, or the trailer that ends the stream. */
export interface StreamedEvent {
  end: boolean;
  json: {
    event?: {
      start?: { pid: number };
      data?: { stdout?: string; stderr?: string; pty?: string };
      end?: { exitCode?: number; exited?: boolean; status?: string; error?: string };
      keepalive?: object;
    };
    error?: { code: string; message: string };
  };
}

export class RunningGuest implements AsyncDisposable {
  readonly folder: string;
  readonly port: number;
  /** The daemon's log so far. */
  log = "";
  #child: Bun.Subprocess<"ignore", "pipe", "pipe">;

  private constructor(folder: string, port: number, child: Bun.Subprocess<"ignore", "pipe", "pipe">) {
    this.folder = folder;
    this.port = port;
    this.#child = child;
    void this.#keepLog();
  }

  /** `through` is the command that starts it, with other rights, limits or mounts. */
  static async start(env: Record<string, string> = {}, through: (folder: string) => string[] = () => []) {
    const folder = await mkdtemp(`${tmpdir()}/sandlot-guest-`);
    const port = freePort();
    const guest = new RunningGuest(folder, port, spawnGuest(folder, port, env, through(folder)));
    await guest.#listening();
    return guest;
  }

  /** A guest without privileges, which can do no harm, for randomly generated requests. */
  static async startHarmless(): Promise<RunningGuest> {
    const harmless = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"];
    return RunningGuest.start({}, (folder) => {
      chownSync(folder, NOBODY, NOBODY);
      return ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, ...harmless];
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Kills the daemon and starts another one with the same port and state, like the sandbox's init. */
  async respawn(signal: NodeJS.Signals = "SIGKILL"): Promise<number | null> {
    this.#child.kill(signal);
    await this.#child.exited;
    const exitCode = this.#child.exitCode;
    this.#child = spawnGuest(this.folder, this.port, {});
    void this.#keepLog();
    await this.#listening();
    return exitCode;
  }

  /** Ends the guest and its processes. */
  async [Symbol.asyncDispose](): Promise<void> {
    Bun.spawnSync(["pkill", "--signal", "KILL", "--parent", String(this.#child.pid)]);
    this.#child.kill("SIGKILL");
    await this.#child.exited;
    await rm(this.folder, { recursive: true, force: true });
  }

  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(this.url + path, init);
  }

  async configure(settings: Partial<GuestSettings>): Promise<void> {
    const whole: GuestSettings = {
      sandboxId: "isandbox1",
      templateId: "template1",
      envVars: {},
      accessTokens: [],
      defaultUser: "root",
      defaultWorkdir: "",
      ...settings,
    };
    const response = await this.control("configure", whole);
    if (response.status !== 204) throw new Error(`configure answered ${response.status}: ${await response.text()}`);
  }

  control(operation: string, message: unknown): Promise<Response> {
    return this.fetch(`/control/${operation}`, {
      method: "POST",
      headers: { [CONTROL_SECRET_HEADER]: SECRET },
      body: JSON.stringify(message),
    });
  }

  call(method: string, message: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return this.fetch(`/${method}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body: JSON.stringify(message),
    });
  }

  /** A server stream, envelope by envelope. Leaving the loop early closes the connection. */
  async *stream(method: string, message: unknown, headers: Record<string, string> = {}): AsyncGenerator<StreamedEvent> {
    const gone = new AbortController();
    try {
      const response = await this.fetch(`/${method}`, {
        method: "POST",
        headers: { "Content-Type": "application/connect+json", ...headers },
        body: envelope(message),
        signal: gone.signal,
      });
      if (response.status !== 200 || response.body === null) throw new Error(`stream answered ${response.status}`);
      yield* envelopes(response.body);
    } finally {
      gone.abort();
    }
  }

  binaryTransport() {
    return createTransport({
      baseUrl: this.url,
      httpClient: createFetchClient(fetch),
      useBinaryFormat: true,
      interceptors: [],
      acceptCompression: [],
      sendCompression: null,
      compressMinBytes: 1024,
      readMaxBytes: 0xffffffff,
      writeMaxBytes: 0xffffffff,
    });
  }

  /** Resident memory of the daemon, now and at its peak. */
  async memoryKib(): Promise<{ now: number; peak: number }> {
    const status = await readFile(`/proc/${this.pid}/status`, "utf8");
    const field = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]);
    return { now: field("VmRSS"), peak: field("VmHWM") };
  }

  async #keepLog(): Promise<void> {
    for await (const chunk of this.#child.stderr) this.log += Buffer.from(chunk).toString();
  }

  async #listening(): Promise<void> {
    await until("the guest listens", async () => {
      if (this.#child.exitCode !== null) throw new Error(this.log);
      return await accepts(this.port);
    });
  }
}

export function basic(user: string): Record<string, string> {
  return { Authorization: `Basic ${btoa(`${user}:`)}` };
}

export function envelope(message: unknown): Uint8Array<ArrayBuffer> {
  return envelopeOf(Buffer.from(JSON.stringify(message)));
}

export function envelopeOf(payload: Uint8Array, flags = 0): Uint8Array<ArrayBuffer> {
  const whole = Buffer.alloc(5 + payload.length);
  whole.writeUInt8(flags, 0);
  whole.writeUInt32BE(payload.length, 1);
  whole.set(payload, 5);
  return new Uint8Array(whole);
}

export async function* envelopes(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamedEvent> {
  for await (const { flags, payload } of frames(body)) {
    yield { end: flags === 2, json: JSON.parse(payload.toString()) };
  }
}

export async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<{ flags: number; payload: Buffer }> {
  let pending = Buffer.alloc(0);
  for await (const chunk of body) {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 5 && pending.length >= 5 + pending.readUInt32BE(1)) {
      const end = 5 + pending.readUInt32BE(1);
      yield { flags: pending.readUInt8(0), payload: pending.subarray(5, end) };
      pending = pending.subarray(end);
    }
  }
  if (pending.length > 0) throw new Error("the stream broke off inside of an envelope");
}

function spawnGuest(folder: string, port: number, env: Record<string, string>, through: string[] = []) {
  return Bun.spawn([...through, process.execPath, `${import.meta.dir}/../main.ts`], {
    env: {
      PATH: process.env.PATH ?? "",
      SANDLOT_GUEST_PORT: String(port),
      SANDLOT_STATE_DIR: `${folder}/state`,
      SANDLOT_CONTROL_SECRET_FILE: secretFile(folder),
      ...env,
    },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
}

/** Writes the secret file in the host's format. */
function secretFile(folder: string): string {
  const path = `${folder}/secret`;
  writeFileSync(path, SECRET);
  return path;
}

async function accepts(port: number): Promise<boolean> {
  try {
    const socket = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data: (early) => void early.end() } });
    socket.end();
    return true;
  } catch {
    // Not yet: the caller tries again.
    return false;
  }
}
