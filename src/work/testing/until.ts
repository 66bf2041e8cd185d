/** Asks until the answer is yes, and fails loudly when it never is. */
const ASK_AGAIN_MS = 5;
const WITHIN_MS = 30_000;

export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WITHIN_MS;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`not within ${WITHIN_MS} ms: ${what}`);
    await Bun.sleep(ASK_AGAIN_MS);
  }
}
