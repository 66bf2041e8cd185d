/**
 * Sends packets through the host's firewall like a sandbox: from an interface named like those of sandboxes, to the
 * host like DNS queries, and through the host to a network namespace that stands for the outside. Nothing leaves the
 * host, no setting of it changes, and everything ends with the processes that hold the namespaces.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { boundedLines } from "../../base/bounded-lines.ts";
import { writeToStdin } from "../../base/program-stdin.ts";
import { scaled } from "../../base/time-factor.ts";
import { NAMESERVER_ADDRESS } from "../../contract/address-plan.ts";
import { Fault } from "../../contract/fault.ts";
import { ANY_INTERFACE } from "../../sandbox/network/slot-chains.ts";
import { attempt, cannotStart, MINIMAL_ENV, run } from "../../system/command.ts";

export interface Probe {
  protocol: "tcp" | "udp";
  address: string;
  port: number;
}

export interface Probing {
  probes: readonly Probe[];
  withinMs: number;
}

/** Whether packets and their replies passed. */
export interface FirewallTrial {
  /** To the host: DNS queries, and connections to the relay. */
  input: boolean;
  /** Through the host to the outside. */
  forward: boolean;
}

const PROGRAM = join(import.meta.dir, "firewall-trial-program.ts");
/** Only a firewall that drops packets makes the doctor wait this long; a busy machine may take seconds to reply. */
const PROBE_MS = scaled(6_000);
const START_MS = scaled(20_000);
const LINE_MAX_BYTES = 4096;
const DNS_PORT = 53;
/** Where both ends listen. */
const TRIAL_PORT = 4567;
const TABLE = "sandlot_doctor_";

export async function tryFirewall(): Promise<FirewallTrial> {
  const mark = process.pid.toString(36);
  const [inside, outside] = [new TrialEnd(), new TrialEnd()];
  const table = `${TABLE}${process.pid}`;
  // Documentation ranges, which no host routes. Concurrent doctors have different pids.
  const block = (process.pid % 64) * 4;
  const plan = {
    sandbox: { own: `192.0.2.${block + 1}`, peer: `192.0.2.${block + 2}`, link: `${ANY_INTERFACE}d${mark}` },
    outside: { own: `198.51.100.${block + 1}`, peer: `198.51.100.${block + 2}`, link: `sandlotd${mark}` },
  };
  try {
    await Promise.all([inside.started, outside.started]);
    await connectEnd(inside.pid, plan.sandbox);
    await connectEnd(outside.pid, plan.outside);
    using names = await answerNames(plan.sandbox.own);
    await run(["nft", "-f", "-"], { stdin: dnsRedirectRules(table, plan.sandbox.link, plan.sandbox.own, names.port) });
    const probes: Probe[] = [
      { protocol: "udp", address: NAMESERVER_ADDRESS, port: DNS_PORT },
      { protocol: "tcp", address: NAMESERVER_ADDRESS, port: DNS_PORT },
      { protocol: "tcp", address: plan.outside.peer, port: TRIAL_PORT },
    ];
    const [udp, tcp, forward] = await inside.passed({ probes, withinMs: PROBE_MS });
    return { input: udp === true && tcp === true, forward: forward === true };
  } finally {
    await Promise.all([inside.end(), outside.end()]);
    // The kernel removes them with their namespaces, but some time later.
    for (const { link } of [plan.sandbox, plan.outside]) await attempt(["ip", "link", "delete", link]);
    await removeTables(table);
  }
}

class TrialEnd {
  readonly #child = spawnEnd();
  readonly #lines = boundedLines(this.#child.stdout, LINE_MAX_BYTES);
  readonly started = this.#line();

  constructor() {
    this.started.catch(() => undefined);
  }

  get pid(): number {
    return this.#child.pid;
  }

  async passed(probing: Probing): Promise<boolean[]> {
    await writeToStdin(this.#child.stdin, `${JSON.stringify(probing)}\n`);
    return JSON.parse(await this.#line()) as boolean[];
  }

  async end(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }

  async #line(): Promise<string> {
    const late = setTimeout(() => this.#child.kill("SIGKILL"), START_MS);
    const { value } = await this.#lines.next().finally(() => clearTimeout(late));
    if (value === undefined) throw new Fault(503, `a process of the firewall trial sent nothing within ${START_MS} ms`);
    return value;
  }
}

function spawnEnd() {
  const program = [process.execPath, PROGRAM, String(TRIAL_PORT)];
  try {
    return Bun.spawn(["setpriv", "--pdeathsig=KILL", "unshare", "--net", ...program], {
      stdio: ["pipe", "pipe", "ignore"],
      env: { ...MINIMAL_ENV },
      cwd: "/",
    });
  } catch (cause) {
    throw cannotStart("unshare", cause);
  }
}

interface End {
  /** The host's address on this link. */
  own: string;
  peer: string;
  link: string;
}

async function connectEnd(pid: number, { own, peer, link }: End): Promise<void> {
  const here = [
    `link add ${link} type veth peer name eth0 netns ${pid}`,
    `addr add ${own}/32 dev ${link}`,
    `link set ${link} up`,
    `route add ${peer}/32 dev ${link}`,
  ];
  await run(["ip", "-batch", "-"], { stdin: here.join("\n") });
  // For these interfaces only: the server enables forwarding for the whole host when it starts.
  writeFileSync(`/proc/sys/net/ipv4/conf/${link}/forwarding`, "1");
  const there = [
    "link set lo up",
    `addr add ${peer}/32 dev eth0`,
    "link set eth0 up",
    `route add ${own}/32 dev eth0`,
    `route add default via ${own} dev eth0`,
  ];
  await run(["nsenter", `--net=/proc/${pid}/ns/net`, "ip", "-batch", "-"], { stdin: there.join("\n") });
}

/** Redirects DNS like the server's own table; firewalls accept redirected packets. */
function dnsRedirectRules(table: string, link: string, address: string, port: number): string {
  return `table inet ${table} { chain lead { type nat hook prerouting priority dstnat;
    iifname "${link}" meta l4proto { tcp, udp } th dport ${DNS_PORT} dnat ip to ${address}:${port}; }
  }`;
}

/** Replies to everything on one port of this address, over UDP and TCP. */
async function answerNames(address: string): Promise<Disposable & { port: number }> {
  const tcp = createServer((socket) => void socket.end("x"));
  tcp.listen(0, address);
  await once(tcp, "listening");
  const { port } = tcp.address() as AddressInfo;
  const udp = createSocket("udp4", (_, from) => udp.send("x", from.port, from.address, () => undefined));
  udp.bind(port, address);
  await once(udp, "listening");
  return {
    port,
    [Symbol.dispose]() {
      tcp.close();
      udp.close();
    },
  };
}

/** Removes the doctor's own table and those of killed doctors. */
async function removeTables(own: string): Promise<void> {
  const { stdout } = await attempt(["nft", "list", "tables", "inet"]);
  for (const [, name = "", pid] of stdout.matchAll(/^table inet (sandlot_doctor_(\d+))$/gm)) {
    if (name === own || !isAlive(Number(pid))) await attempt(["nft", "delete", "table", "inet", name]);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
