/**
 * Measures socket buffers of a sandbox that are charged to no cgroup. The kernel charges a sandbox for data queued in
 * unix and TCP sockets and for data received by UDP sockets. It charges neither data queued in netlink and ping sockets
 * nor datagrams that are begun and not sent (MSG_MORE): only /proc shows those.
 */
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";

const QUEUE_SOCKETS_FEW = 4;
const QUEUE_UDP_SOCKETS_FEW = 128;
/** Enough for a list of all sockets that a sandbox may have. */
const QUEUE_LIST_MAX_BYTES = 1024 * 1024;

export interface Queued {
  sockets: number;
  bytes: number;
}

const NOTHING: Queued = { sockets: 0, bytes: 0 };
/** Names of the protocols in /proc/net/protocols. */
const PROTOCOLS = { netlink: ["NETLINK"], ping: ["PING", "PINGv6"], udp: ["UDP", "UDPv6"] };
const PING_LISTS = ["icmp", "icmp6"];
const UDP_LISTS = ["udp", "udp6"];

/** Measures the network namespace of process `pid`. The cheapest check, the total number of sockets, comes first. */
export function queuedIn(pid: number, proc = "/proc"): Queued {
  const folder = join(proc, String(pid), "net");
  const used = Number(/^sockets: used (\d+)$/m.exec(readFileSync(join(folder, "sockstat"), "utf8"))?.[1] ?? 0);
  if (used <= QUEUE_SOCKETS_FEW) return NOTHING;
  const protocols = readFileSync(join(folder, "protocols"), "utf8");
  const of = (kind: keyof typeof PROTOCOLS) => socketsOf(protocols, PROTOCOLS[kind]);
  const [netlink, ping] = [of("netlink"), of("ping")];
  let bytes = netlink > QUEUE_SOCKETS_FEW ? netlinkBytes(headOf(join(folder, "netlink"))) : 0;
  if (ping > QUEUE_SOCKETS_FEW) for (const name of PING_LISTS) bytes += datagramBytes(headOf(join(folder, name)));
  if (of("udp") > QUEUE_UDP_SOCKETS_FEW) {
    for (const name of UDP_LISTS) bytes += datagramBytes(headOf(join(folder, name)), "unsent");
  }
  return { sockets: netlink + ping, bytes };
}

/** The kernel's own memory on this machine: used neither by programs nor by files, and not reclaimable. */
export function kernelMemoryBytes(proc = "/proc"): number {
  const text = readFileSync(join(proc, "meminfo"), "utf8");
  const of = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, "m").exec(text)?.[1] ?? 0) * 1024;
  const others = ["MemFree", "Buffers", "Cached", "AnonPages", "SReclaimable", "PageTables", "KernelStack"];
  return others.reduce((left, name) => left - of(name), of("MemTotal"));
}

function socketsOf(protocols: string, names: readonly string[]): number {
  const counts = names.map((name) => Number(new RegExp(`^${name} +\\d+ +(\\d+) `, "m").exec(protocols)?.[1] ?? 0));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Sums the fifth column, which is decimal. */
function netlinkBytes(list: string): number {
  return sum(list, (columns) => Number(columns[4]));
}

/** Sums the fifth column, hexadecimal: unsent and unread bytes. */
function datagramBytes(list: string, which: "all" | "unsent" = "all"): number {
  return sum(list, (columns) => {
    const [unsent = 0, unread = 0] = (columns[4] ?? "").split(":").map((text) => Number.parseInt(text, 16));
    return which === "all" ? unsent + unread : unsent;
  });
}

function sum(list: string, of: (columns: string[]) => number): number {
  let bytes = 0;
  for (const line of list.split("\n").slice(1)) bytes += of(line.trim().split(/\s+/)) || 0;
  return bytes;
}

/** Empty if the kernel has no such list. */
function headOf(path: string): string {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch {
    return "";
  }
  try {
    const bytes = Buffer.alloc(QUEUE_LIST_MAX_BYTES);
    let length = 0;
    // Each read returns only some lines.
    for (let read = -1; read !== 0 && length < bytes.length; length += read) {
      read = readSync(fd, bytes, length, bytes.length - length, null);
    }
    return bytes.toString("latin1", 0, length);
  } finally {
    closeSync(fd);
  }
}
