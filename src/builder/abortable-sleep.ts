/** A sleep that an abort signal ends early, with the signal's reason. */
import { setTimeout } from "node:timers/promises";

export async function abortableSleep(ms: number, signal: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}
