/**
 * Keeps the packets of everybody else from a sandbox for a moment, and ends the connections that lead to it from this
 * machine. For walls that cannot be written down while something comes in.
 */
import { readFileSync } from "node:fs";
import { SANDBOX_MAC } from "../../contract/address-plan.ts";
import { attempt, run } from "../../system/command.ts";

/** Nobody has it. What is sent there is taken for another's, and sent again until it is answered. */
const NOBODYS_MAC = "02:5a:00:00:00:23";
/** Of connections that are over, and only remembered, or on which both have hung up, the sandbox first. */
const OVER: readonly string[] = ["06", "09"];
/** How an IPv6 socket shows an IPv4 address. */
const MAPPED = "0000000000000000FFFF0000";

export class NetworkQuiesce {
  constructor(
    readonly address: string,
    /** The end on the machine of the sandbox's interface. */
    readonly device: string,
  ) {}

  /** Both ends learn of it. A kernel that cannot do it leaves them. */
  async cut(): Promise<void> {
    await attempt(["ss", "--kill", "--no-header", "--tcp", "--numeric", "dst", this.address]);
  }

  async begin(): Promise<void> {
    await this.#answerAs(NOBODYS_MAC);
  }

  /** Never throws: a sandbox whose interface is gone needs none. */
  async end(): Promise<void> {
    await this.#answerAs(SANDBOX_MAC).catch(() => undefined);
  }

  /** Whether a connection leads there from this machine. */
  get isConnected(): boolean {
    return ["tcp", "tcp6"].some((name) => leadsTo(readFileSync(`/proc/net/${name}`, "utf8"), this.address));
  }

  async #answerAs(mac: string): Promise<void> {
    const { address, device } = this;
    await run(["ip", "neighbor", "replace", address, "lladdr", mac, "dev", device, "nud", "permanent"]);
  }
}

/** `table` is what the kernel shows of its TCP sockets: number, where it is bound, whom it is for, and its state. */
export function leadsTo(table: string, address: string): boolean {
  const bytes = address.split(".").map((part) => Number(part).toString(16).padStart(2, "0").toUpperCase());
  const shown = bytes.toReversed().join("");
  const found = [...table.matchAll(/^ *\d+: \S+ ([0-9A-F]+):[0-9A-F]{4} ([0-9A-F]{2}) /gm)];
  return found.some(
    ([, remote, state]) => (remote === shown || remote === MAPPED + shown) && !OVER.includes(state ?? ""),
  );
}
