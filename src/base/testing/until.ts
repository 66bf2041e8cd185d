/** Waits for what no event announces, and fails after a timeout. */
const ASK_AGAIN_MAX_MS = 20;
/** Long, because no promise about time is tested with it. */
const WITHIN_MS = 120_000;
const STILL_MS = 200;

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

/** Resolves with a count that has grown and then stayed the same for a moment: nothing else shows its end. */
export async function untilStill(count: () => number): Promise<number> {
  let before = 0;
  await until("a count stays as it is", async () => {
    before = count();
    await Bun.sleep(STILL_MS);
    return before > 0 && count() === before;
  });
  return before;
}
