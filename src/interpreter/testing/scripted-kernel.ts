/** A kernel without a process that does what its cells say, and a server with such kernels. */
import type { AddressInfo } from "node:net";
import { Fault } from "../../contract/fault.ts";
import { Contexts } from "../contexts.ts";
import { type Kernel, KernelEnded, type KernelOutput, type Language } from "../kernel.ts";
import { Kernels } from "../kernels.ts";
import type { SandboxFacts } from "../sandbox-facts.ts";
import { interpreterServer } from "../server.ts";

/** A pid that no process has. */
const NO_PID = 2 ** 30;

/**
 * Cells: `say TEXT`, `fail`, `die`, `wait` (until it is interrupted, or for ever with `wait deaf`), `show NAME` of a
 * variable.
 */
class ScriptedKernel implements Kernel {
  readonly pid = NO_PID;
  readonly ended: Promise<void>;
  readonly variables = new Map<string, string>();
  readonly cells: string[] = [];
  folder = "";
  reseeds = 0;
  interrupts = 0;
  isAlive = true;
  #count = 0;
  #end: () => void;
  #stop: (() => void) | undefined;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.#end = resolve;
  }

  async execute(code: string, onOutput: (output: KernelOutput) => void): Promise<void> {
    if (!this.isAlive) throw new KernelEnded("it has ended");
    this.cells.push(code);
    onOutput({ kind: "count", count: ++this.#count });
    const [verb, rest = ""] = code.split(/ (.*)/s);
    if (verb === "say") onOutput({ kind: "stdout", text: rest });
    if (verb === "show") onOutput({ kind: "stdout", text: this.variables.get(rest) ?? "(none)" });
    if (verb === "fail") onOutput({ kind: "error", name: "Failed", value: rest, traceback: "" });
    if (verb === "die") await this.kill();
    if (verb === "wait" && (await this.#untilStopped(rest === "deaf"))) {
      onOutput({ kind: "error", name: "Interrupted", value: "", traceback: "" });
    }
    if (!this.isAlive) throw new KernelEnded("it has ended");
  }

  async #untilStopped(isDeaf: boolean): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (!isDeaf) this.#stop = resolve;
    await Promise.race([promise, this.ended]);
    this.#stop = undefined;
    return this.isAlive;
  }

  interrupt(): void {
    this.interrupts++;
    this.#stop?.();
  }

  async setVariables(variables: Readonly<Record<string, string | null>>): Promise<void> {
    for (const [name, value] of Object.entries(variables)) {
      if (value === null) this.variables.delete(name);
      else this.variables.set(name, value);
    }
  }

  async setFolder(path: string): Promise<void> {
    this.folder = path;
  }

  async reseed(): Promise<void> {
    this.reseeds++;
  }

  async kill(): Promise<void> {
    this.isAlive = false;
    this.#end();
  }
}

export interface ScriptedServer extends AsyncDisposable {
  url: string;
  /** All that were ever started, in that order. */
  kernels: ScriptedKernel[];
  /** The server's settings of its sandbox; tests change them. */
  sandbox: { identity: string; variables: Record<string, string> | undefined; askedWith: (string | undefined)[] };
  /** From now on no kernel starts. */
  breakStarts(): void;
}

/** With two languages, and this many spares of the first. */
export async function scriptedServer(spares = 0): Promise<ScriptedServer> {
  const kernels: ScriptedKernel[] = [];
  const sandbox: ScriptedServer["sandbox"] = { identity: "one", variables: {}, askedWith: [] };
  let isBroken = false;
  const language = (name: string): Language => ({
    name,
    async start() {
      if (isBroken) throw new Fault(500, "no kernel starts any more");
      const kernel = new ScriptedKernel();
      kernels.push(kernel);
      return kernel;
    },
  });
  const facts: SandboxFacts = {
    identity: () => sandbox.identity,
    async variables(accessToken) {
      sandbox.askedWith.push(accessToken);
      return sandbox.variables;
    },
  };
  const languages = ["python", "typescript"].map(language);
  const pool = new Kernels(new Map(languages.map((each, at) => [each, at === 0 ? spares : 0])), facts);
  const server = interpreterServer(new Contexts(languages, pool));
  await pool.refill(0);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    kernels,
    sandbox,
    breakStarts: () => {
      isBroken = true;
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

export type Line = Record<string, unknown> & { type: string };

/** The whole stream of one execution. */
export async function linesOf(response: Response): Promise<Line[]> {
  const text = await response.text();
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

export async function post(url: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  return await fetch(url, Object.assign({ method: "POST", body: JSON.stringify(body) }, init));
}
