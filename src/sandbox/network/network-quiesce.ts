/** Blocks packets to a sandbox and closes connections to it, for runtimes whose checkpoints need that. */
import { readFileSync } from "node:fs";
import { SANDBOX_MAC } from "../../contract/address-plan.ts";
import { attempt, run } from "../../system/command.ts";

/** A MAC address that no interface has. The sandbox ignores packets sent to it, and the sender retransmits them. */
const NOBODYS_MAC = "02:5a:00:00:00:23";
/** TCP states of finished connections: TIME_WAIT, and LAST_ACK, in which the sandbox closed first. */
const OVER: readonly string[] = ["06", "09"];
/** Prefix of an IPv4-mapped address in /proc/net/tcp6. */
const MAPPED = "0000000000000000FFFF0000";

export class NetworkQuiesce {
  constructor(
    readonly address: string,
    /** The host's end of the sandbox's interface. */
    readonly device: string,
  ) {}

  /** Closes the connections at both ends. A kernel without this function leaves them open. */
  async cut(): Promise<void> {
    await attempt(["ss", "--kill", "--no-header", "--tcp", "--numeric", "dst", this.address]);
  }

  async begin(): Promise<void> {
    await this.#answerAs(NOBODYS_MAC);
  }

  /** Never throws: a sandbox whose interface is gone needs no reset. */
  async end(): Promise<void> {
    await this.#answerAs(SANDBOX_MAC).catch(() => undefined);
  }

  /** Whether this machine has a connection to the sandbox. */
  get isConnected(): boolean {
    return ["tcp", "tcp6"].some((name) => leadsTo(readFileSync(`/proc/net/${name}`, "utf8"), this.address));
  }

  async #answerAs(mac: string): Promise<void> {
    const { address, device } = this;
    await run(["ip", "neighbor", "replace", address, "lladdr", mac, "dev", device, "nud", "permanent"]);
  }
}

/** `table` is the text of /proc/net/tcp or tcp6: number, local address, remote address, state. */
export function leadsTo(table: string, address: string): boolean {
  const bytes = address.split(".").map((part) => Number(part).toString(16).padStart(2, "0").toUpperCase());
  const shown = bytes.toReversed().join("");
  const found = [...table.matchAll(/^ *\d+: \S+ ([0-9A-F]+):[0-9A-F]{4} ([0-9A-F]{2}) /gm)];
  return found.some(
    ([, remote, state]) => (remote === shown || remote === MAPPED + shown) && !OVER.includes(state ?? ""),
  );
}
