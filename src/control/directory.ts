/** What the edge may ask control: where a sandbox is, to wake it, and whose a signed link is. */
import type { SignedLink } from "../contract/runtime/file-signature.ts";

export interface Directory {
  /** Undefined: unknown, ended, not running, or not to be reached just now; `wake` knows which. */
  find(sandboxId: string): Promise<Destination | undefined>;

  /**
   * The way to a sandbox that `find` does not know. One that is between two states is waited for, a paused one is woken if
   * its creator allows it and the credentials do. However many ask at once, it is woken once; that nobody waits any more
   * does not stop it.
   */
  wake(sandboxId: string, request: WakeRequest): Promise<Wake>;

  /** The running sandbox that a signed file link opens. Fault 429 when `client` has guessed too often. */
  findSigned(link: SignedLink, client: string): Promise<string | undefined>;
}

export interface WakeRequest {
  port: number;
  /** The request's X-Access-Token. */
  accessToken: string | null;
  /** False: it only asks whether the sandbox is up. It joins a start that is under way and begins none. */
  mayWake: boolean;
}

export type Wake = { destination: Destination } | { refused: WakeRefusal };

export type WakeRefusal = "not-found" | "forbidden" | "in-transition" | "limit-reached";

export interface Destination {
  /** IPv4 address at which the sandbox's ports are reached from this machine. */
  address: string;
  /** A port at `address` that leads to a service bound to a loopback address on `port`, or undefined if there is none. */
  forward(port: number): Promise<number | undefined>;
  /** Aborted when this run of the sandbox is over: what is carried to it must end then. */
  ended: AbortSignal;
}
