/**
 * Connections that end with a signal, and their shared counters. A signal has one listener for all its connections,
 * because one each is expensive. A sandbox usually gets more requests, so unused entries are only removed by a later
 * sweep.
 */
import { HeldBytes } from "../front/held-bytes.ts";

/** Interval of that sweep. */
const EDGE_ENDINGS_LOOK_EVERY_MS = 2_000;

interface EndedSocket {
  cut(): void;
}

const endingWith = new Map<AbortSignal, Ending>();
let looking: ReturnType<typeof setTimeout> | undefined;

export function knownEnding(signal: AbortSignal): Ending | undefined {
  return endingWith.get(signal);
}

interface Ending {
  sockets: Set<EndedSocket>;
  /** Concurrent splices of these connections. */
  splicings: number;
  held: HeldBytes;
  cut(): void;
}

export function endingOf(signal: AbortSignal): Ending {
  const known = endingWith.get(signal);
  if (known !== undefined) return known;
  const sockets = new Set<EndedSocket>();
  const cut = () => {
    for (const socket of [...sockets]) socket.cut();
  };
  const ending = { sockets, splicings: 0, held: new HeldBytes(), cut };
  endingWith.set(signal, ending);
  signal.addEventListener("abort", cut);
  lookLater();
  return ending;
}

function lookLater(): void {
  looking ??= setTimeout(() => {
    looking = undefined;
    for (const [signal, { sockets, held, cut }] of endingWith) {
      if (sockets.size > 0 || held.bytes > 0) continue;
      endingWith.delete(signal);
      signal.removeEventListener("abort", cut);
    }
    if (endingWith.size > 0) lookLater();
  }, EDGE_ENDINGS_LOOK_EVERY_MS);
  looking.unref();
}
