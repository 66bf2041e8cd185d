/**
 * Ports that a test must know before a server listens on them, or that must stay unused. They lie below the kernel's
 * ephemeral range: a port from there may belong to another test by the time it is used.
 */
import { systemCode } from "../system-code.ts";

const PORTS_FIRST = 10_000;
const PORTS_PER_PROCESS = 200;
const PROCESSES = 100;

let block: { first: number; held: Bun.TCPSocketListener } | undefined;
let given = 0;

/** A port without a listener. A port still in use by an earlier server is skipped. */
export function freePort(): number {
  block ??= ownBlock();
  const { first } = block;
  for (let tries = 1; tries < PORTS_PER_PROCESS; tries++) {
    const port = first + 1 + (given++ % (PORTS_PER_PROCESS - 1));
    if (isFree(port)) return port;
  }
  throw new Error(`somebody listens on each port from ${first} to ${first + PORTS_PER_PROCESS - 1}`);
}

/**
 * Ports of this process alone, as long as it listens on their first. Its id only says where to begin: it is a
 * neighbour of those of the same group of parallel tests, but another group may run at the same time.
 */
function ownBlock(): { first: number; held: Bun.TCPSocketListener } {
  for (let tries = 0; tries < PROCESSES; tries++) {
    const first = PORTS_FIRST + ((process.pid + tries) % PROCESSES) * PORTS_PER_PROCESS;
    const held = listenOn(first);
    if (held === undefined) continue;
    held.unref();
    return { first, held };
  }
  throw new Error(`somebody listens on each ${PORTS_PER_PROCESS}th port from ${PORTS_FIRST}`);
}

function isFree(port: number): boolean {
  const listener = listenOn(port);
  listener?.stop(true);
  return listener !== undefined;
}

/** Undefined if somebody else does. */
function listenOn(port: number): Bun.TCPSocketListener | undefined {
  try {
    return Bun.listen({ hostname: "127.0.0.1", port, socket: { data: () => undefined } });
  } catch (error) {
    if (systemCode(error) !== "EADDRINUSE") throw error;
    return undefined;
  }
}
