/**
 * Ports that a test must know before a server listens on them, or that must stay unused. They lie below the kernel's
 * ephemeral range: a port from there may belong to another test by the time it is used.
 */
const PORTS_FIRST = 10_000;
const PORTS_PER_PROCESS = 200;
/** Parallel tests are processes with neighbouring ids, so they get different ports. */
const PROCESSES = 100;

const first = PORTS_FIRST + (process.pid % PROCESSES) * PORTS_PER_PROCESS;
let given = 0;

/** A port without a listener. A port still in use by an earlier server is skipped. */
export function freePort(): number {
  for (let tries = 0; tries < PORTS_PER_PROCESS; tries++) {
    const port = first + (given++ % PORTS_PER_PROCESS);
    if (isFree(port)) return port;
  }
  throw new Error(`somebody listens on each port from ${first} to ${first + PORTS_PER_PROCESS - 1}`);
}

function isFree(port: number): boolean {
  try {
    Bun.listen({ hostname: "127.0.0.1", port, socket: { data: () => undefined } }).stop(true);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    return false;
  }
}
