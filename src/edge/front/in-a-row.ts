/**
 * Work of one kind, done for many requests in a row. A request is some JavaScript, then a connection that the kernel
 * makes, some more JavaScript, bytes to send and a connection to close. Done request by request, each of these finds
 * the processor's caches full of what came before it; done for all requests of a turn of the event loop, only the first
 * one does. Where little is carried nothing is put off: there would be nothing to win, and the request would wait.
 */
import { EDGE_IN_A_ROW_MIN } from "../limits.ts";

/** In the order in which they are done: what somebody waits for comes first. */
const KINDS = ["send", "connect", "close"] as const;

const waiting: Record<(typeof KINDS)[number], (() => void)[]> = { send: [], connect: [], close: [] };
let isAwaited = false;
let carried = 0;

/** An exchange has begun. */
export function exchangeBegun(): void {
  carried += 1;
}

/** One that had begun is over. */
export function exchangeOver(): void {
  carried -= 1;
}

/** Does the work now, or with what else there is of its kind before the turn is over. It must not throw. */
export function inARow(kind: (typeof KINDS)[number], work: () => void): void {
  if (carried < EDGE_IN_A_ROW_MIN) {
    work();
    return;
  }
  waiting[kind].push(work);
  if (isAwaited) return;
  isAwaited = true;
  setImmediate(doAll);
}

function doAll(): void {
  isAwaited = false;
  for (const kind of KINDS) {
    const all = waiting[kind];
    if (all.length === 0) continue;
    waiting[kind] = [];
    for (const work of all) work();
  }
}
