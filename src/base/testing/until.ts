/** Polls a condition that no event announces, and fails after a timeout. */
const ASK_AGAIN_MAX_MS = 20;
const WITHIN_MS = 60_000;

type Condition = () => boolean | Promise<boolean>;

export async function until(what: string | (() => string), isSo: Condition, withinMs = WITHIN_MS): Promise<void> {
  const deadline = performance.now() + withinMs;
  for (let pauseMs = 1; !(await isSo()); pauseMs = Math.min(2 * pauseMs, ASK_AGAIN_MAX_MS)) {
    if (performance.now() > deadline) {
      throw new Error(`not within ${withinMs} ms: ${typeof what === "string" ? what : what()}`);
    }
    await Bun.sleep(pauseMs);
  }
}

/** For a self-explanatory condition: the failure shows its source. */
export async function untilTrue(isSo: Condition, withinMs?: number): Promise<void> {
  await until(String(isSo), isSo, withinMs);
}
