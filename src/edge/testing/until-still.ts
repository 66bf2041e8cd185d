/** For a server that is expected to stop of itself: there is nothing else by which to see that it has. */
const LOOK_MS = 200;

/** Resolves when a count has begun to grow, and has stayed the same for a moment since. */
export async function untilStill(count: () => number): Promise<void> {
  let before: number;
  do {
    before = count();
    await Bun.sleep(LOOK_MS);
  } while (before === 0 || count() > before);
}
