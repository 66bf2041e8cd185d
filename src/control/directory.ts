/** What the edge may ask control: where a sandbox is, and whose a signed link is. (Waking a paused one joins here.) */
import type { SignedLink } from "../contract/file-signature.ts";

export interface Directory {
  /** Undefined: unknown, ended, or not running. */
  find(sandboxId: string): Promise<Destination | undefined>;

  /** The running sandbox that a signed file link opens. Fault 429 when `client` has guessed too often. */
  findSigned(link: SignedLink, client: string): Promise<string | undefined>;
}

export interface Destination {
  /** IPv4 address at which the sandbox's ports are reached from this machine. */
  address: string;
  /** A port at `address` that leads to a service bound to a loopback address on `port`, or undefined if there is none. */
  forward(port: number): Promise<number | undefined>;
}
