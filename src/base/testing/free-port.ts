/**
 * Ports that a test must know before anybody listens on them, or on which nobody may. They lie below those that the
 * kernel hands out to whoever asks for any: such a one can be another test's by the time that it is used.
 */
const PORTS_FIRST = 10_000;
const PORTS_PER_PROCESS = 200;
/** Tests that run side by side are processes with neighbouring numbers, and so have ports of their own. */
const PROCESSES = 100;

const first = PORTS_FIRST + (process.pid % PROCESSES) * PORTS_PER_PROCESS;
let given = 0;

/** One that nobody listens on. What a test left, or what is about to stop, keeps its own. */
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
