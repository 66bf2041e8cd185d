/**
 * The network that all tests run in: a namespace whose only uplink leads to the test internet. Whatever a test does,
 * and whichever firewall rule under test leaks, no packet reaches a real network.
 *
 *   machine (tests, server, sandboxes) ── veth ── internet (every address in INTERNET, answered by one program)
 */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { attempt, run } from "../../system/command.ts";

export const MACHINE_ADDRESS = "203.0.113.2";
/** On the machine's own LAN: closed to sandboxes although it is in no private range. */
const LAN_NEIGHBOUR = "203.0.113.50";
/** Open to sandboxes. */
export const OUTSIDE = "93.184.215.14";
export const OUTSIDE_NAME = "outside.test";
export const OUTSIDE_IPV6 = "2001:db8:1::1";
export const NAME_SERVER = "9.9.9.9";
/** Other name servers, which sandboxes might query directly. */
export const OTHER_NAME_SERVERS = ["1.1.1.1", "8.8.8.8"] as const;
/** Web sites by name. All names below wild.test exist as well; the last two share an address. */
export const SITES = {
  "allowed.test": "93.184.215.20",
  "other.test": "93.184.215.21",
  "wild.test": "93.184.215.22",
  "front.test": "93.184.215.23",
  "hidden.test": "93.184.215.23",
} as const;
/** Open to sandboxes, but no host has it. */
export const UNANSWERED = "93.184.215.99";
export const INTERNET_PORTS = { dns: 53, http: 80, https: 443, quic: 443, dnsTls: 853, echo: 7000 } as const;

/** Addresses that names of this internet resolve to and that no sandbox may reach. */
export const CLOSED_EXAMPLES = { metadata: "169.254.169.254", private: "10.1.2.3", lan: LAN_NEIGHBOUR } as const;

/** Each of these would respond if a packet reached it. */
export const MUST_BE_CLOSED = [
  CLOSED_EXAMPLES.private,
  "172.16.5.6",
  "192.168.1.1",
  "100.64.0.1",
  CLOSED_EXAMPLES.metadata,
  "168.63.129.16",
  "192.0.0.8",
  "192.88.99.1",
  "198.19.255.1",
  LAN_NEIGHBOUR,
];

/** All addresses that respond, each once. */
export const INTERNET_ADDRESSES = [
  ...new Set([...MUST_BE_CLOSED, OUTSIDE, NAME_SERVER, ...OTHER_NAME_SERVERS, ...Object.values(SITES), OUTSIDE_IPV6]),
];

const ROUTER = "203.0.113.1";
const PREFIX = "sandlot-test";
const ANSWERING_MS = 10_000;

interface OuterNetwork {
  /** Command prefix that runs a program in the machine's namespace. */
  enter: string[];
  remove(): Promise<void>;
}

export async function makeOuterNetwork(): Promise<OuterNetwork> {
  const machine = `${PREFIX}-${process.pid}`;
  const internet = internetOf(String(process.pid));
  for (const name of [machine, internet]) await run(["ip", "netns", "add", name]);
  await run(["ip", "-batch", "-"], {
    stdin: [`link add uplink0 netns ${machine} type veth peer name uplink1 netns ${internet}`].join("\n"),
  });
  await run(["ip", "-netns", machine, "-batch", "-"], {
    stdin: [
      "link set lo up",
      `address add ${MACHINE_ADDRESS}/24 dev uplink0`,
      "address add 2001:db8::2/64 dev uplink0 nodad",
      "link set uplink0 up",
      `route add default via ${ROUTER}`,
      "route add default via 2001:db8::1",
    ].join("\n"),
  });
  await run(["ip", "-netns", internet, "-batch", "-"], {
    stdin: [
      "link set lo up",
      `address add ${ROUTER}/24 dev uplink1`,
      "address add 2001:db8::1/64 dev uplink1 nodad",
      `address add ${OUTSIDE_IPV6}/128 dev lo nodad`,
      "link set uplink1 up",
      // A neighbour of the machine that has a route to its sandboxes.
      `route add 198.18.0.0/15 via ${MACHINE_ADDRESS}`,
      ...INTERNET_ADDRESSES.filter((ip) => ip !== OUTSIDE_IPV6).map((ip) => `address add ${ip}/32 dev lo`),
    ].join("\n"),
  });
  const folder = folderOf(String(process.pid));
  mkdirSync(folder, { recursive: true });
  const answerer = Bun.spawn(inside(internet, [process.execPath, `${import.meta.dir}/internet.ts`, folder]), {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ready = await Promise.race([firstLine(answerer.stdout), Bun.sleep(ANSWERING_MS).then(() => "timeout")]);
  if (ready !== "ready") throw new Error(`the internet of the tests did not come up: ${ready}`);
  return {
    enter: inside(machine, []),
    async remove() {
      answerer.kill("SIGKILL");
      await answerer.exited;
      for (const name of [machine, internet]) await attempt(["ip", "netns", "delete", name]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function internetOf(testRun: string): string {
  return `${PREFIX}-${testRun}-net`;
}

/**
 * Command prefix that runs a program on the internet side of the uplink. `testRun` is the pid that made the network.
 */
export function enterInternet(testRun: string): string[] {
  return inside(internetOf(testRun), []);
}

/** The authority's certificate of the web sites. `testRun` is the pid that made the network. */
export function authorityFile(testRun: string): string {
  return join(folderOf(testRun), "authority.crt");
}

function folderOf(testRun: string): string {
  return `/run/${PREFIX}-${testRun}`;
}

/** Removes the namespaces of killed test runs. */
export async function removeStaleNetworks(): Promise<void> {
  const names = (await run(["ip", "netns", "list"])).split("\n").map((line) => line.split(" ")[0] ?? "");
  for (const name of names) {
    const pid = Number(/^sandlot-test-(\d+)/.exec(name)?.[1]);
    if (pid > 0 && !isRunning(pid)) await attempt(["ip", "netns", "delete", name]);
  }
  for (const run of new Bun.Glob(`${PREFIX}-*`).scanSync({ cwd: "/run", onlyFiles: false })) {
    const pid = Number(run.slice(PREFIX.length + 1));
    if (pid > 0 && !isRunning(pid)) rmSync(folderOf(String(pid)), { recursive: true, force: true });
  }
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Not `ip netns exec`, which hides the cgroup mounts. */
function inside(name: string, argv: string[]): string[] {
  return ["nsenter", `--net=/run/netns/${name}`, "--", ...argv];
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of stream) {
    text += new TextDecoder().decode(chunk);
    if (text.includes("\n")) break;
  }
  return text.split("\n")[0] ?? "";
}
