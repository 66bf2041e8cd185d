/** For a server that should stop on its own: nothing else shows that it has. */
const LOOK_MS = 200;

/** Resolves when a count has begun to grow, and has then stayed the same for a moment. */
export async function untilStill(count: () => number): Promise<void> {
  let before: number;
  do {
    before = count();
    await Bun.sleep(LOOK_MS);
  } while (before === 0 || count() > before);
}
