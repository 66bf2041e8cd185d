/**
 * The connections that end with a signal, and what is counted for them together. A signal has one listener for all its
 * connections: one for each is dear. Since a sandbox that was asked is mostly asked again, one that no connection needs
 * any more is found out later.
 */
import { HeldBytes } from "../front/held-bytes.ts";

/** So often it is looked which sandboxes no connection leads to any more. */
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
  /** How many bodies the kernel moves for these connections. */
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
