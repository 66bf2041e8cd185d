/** What the edge may ask control: where a sandbox is. (Waking a paused one joins here.) */
export interface Directory {
  /** Undefined: unknown, ended, or not running. */
  find(sandboxId: string): Promise<Destination | undefined>;
}

export interface Destination {
  /** IPv4 address at which the sandbox's ports are reached from this machine. */
  address: string;
  /** A port at `address` that leads to a service bound to a loopback address on `port`, or undefined if there is none. */
  forward(port: number): Promise<number | undefined>;
}
