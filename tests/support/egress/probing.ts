/** Probes from inside a sandbox, and counts on the tests' internet what gets out. */
import { join } from "node:path";
import type { Sandbox } from "e2b";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { until } from "../until.ts";

const SERVICES = join(import.meta.dir, "../services");

/** A connection and the requests on it; defaults are in services/web-probe.py. */
export interface Exchange {
  /** Where the connection goes: an address, or a name that the sandbox resolves. */
  address: string;
  port?: number;
  /** Begins TLS with this server name; empty: without a name. */
  name?: string;
  hosts: readonly string[];
  path?: string;
  piece?: number;
  pause?: number;
  raw?: string;
}

export async function giveProbes(sandbox: Sandbox): Promise<void> {
  for (const name of ["probe.py", "web-probe.py", "ask.py", "sender.py", "flows.py"]) {
    await sandbox.files.write(`/tmp/${name}`, await Bun.file(join(SERVICES, name)).text());
  }
}

/** How long a probe waits that should be answered: on a busy machine an answer takes a while. */
export const PATIENT: Readonly<Record<string, string>> = { PROBE_SECONDS: "10" };

/** Those of `probes`, such as "tcp 1.1.1.1 80" (services/probe.py), that are answered. */
export async function reached(sandbox: Sandbox, probes: readonly string[], more = {}): Promise<string[]> {
  const quoted = probes.map((probe) => `'${probe}'`).join(" ");
  // One try for a name, not the resolver's usual four of five seconds: the probes are to end together.
  const envs = { RES_OPTIONS: "attempts:1 timeout:1", ...more };
  const { stdout } = await sandbox.commands.run(`python3 /tmp/probe.py ${quoted}`, { user: "root", envs });
  return stdout.split("\n").filter((line) => line !== "");
}

/** All of `probes` are answered; unanswered ones are retried. */
export async function expectReached(sandbox: Sandbox, probes: readonly string[]): Promise<void> {
  let silent = probes;
  await until(
    () => `${JSON.stringify(silent)} answer, as the others of ${JSON.stringify(probes)} do`,
    async () => {
      const found = await reached(sandbox, silent, PATIENT);
      silent = silent.filter((probe) => !found.includes(probe));
      return silent.length === 0;
    },
  );
}

/** The result of each exchange: the data received, and how the connection ended if the other side ended it. */
export async function exchange(sandbox: Sandbox, exchanges: readonly Exchange[]): Promise<string[][]> {
  const whole = exchanges.map(({ port, ...rest }) => ({ ...rest, port: port ?? (rest.name === undefined ? 80 : 443) }));
  const quoted = JSON.stringify(whole).replaceAll("'", "'\\''");
  const { stdout } = await sandbox.commands.run(`python3 /tmp/web-probe.py '${quoted}'`, { timeoutMs: 120_000 });
  return JSON.parse(stdout);
}

/** How often this text came as a datagram, a piece of an echoed connection, or the path of a request. */
export async function timesSeen(what: string): Promise<number> {
  return await requestsMade(`/seen?what=${encodeURIComponent(what)}`);
}

/** How often any name server there was asked for this name. */
export async function timesAsked(name: string): Promise<number> {
  return await requestsMade(`/asked?name=${encodeURIComponent(name)}`);
}

async function requestsMade(path: string): Promise<number> {
  return Number(await (await fetch(`http://${OUTSIDE}${path}`)).text());
}

/** A request that a site received at /keep/MARK. */
interface Received {
  address: string;
  /** Each name in lower case, and its value, in their order. */
  headers: [name: string, value: string][];
}

/** All requests for /keep/MARK that reached a site. */
export async function receivedFor(mark: string): Promise<Received[]> {
  const lists = (await (await fetch(`http://${OUTSIDE}/kept/${mark}`)).json()) as string[][];
  return lists.map(([address = "", ...raw]) => ({
    address: address.slice(1),
    headers: raw.flatMap((name, at) => (at % 2 === 0 ? [[name.toLowerCase(), raw[at + 1] ?? ""]] : [])),
  }));
}

let marks = 0;

/** A text that nothing else sends, valid as part of a name. */
export function newMark(): string {
  return `m${process.pid}x${++marks}x${crypto.randomUUID().slice(0, 8)}`;
}
