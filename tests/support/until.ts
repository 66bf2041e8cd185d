/** Waits for what nobody announces: asks until the answer is yes, and fails loudly when it never is. */
const ASK_AGAIN_MS = 20;

type What = string | (() => string);

export async function until(what: What, isSo: () => boolean | Promise<boolean>, withinMs = 30_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > deadline) {
      throw new Error(`not within ${withinMs} ms: ${typeof what === "string" ? what : what()}`);
    }
    await Bun.sleep(ASK_AGAIN_MS);
  }
}

/** What `promise` was rejected with; fails when it was not. */
export async function refusalOf(promise: Promise<unknown>): Promise<Error> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    if (error instanceof Error) return error;
    throw new Error(`rejected with something that is no Error: ${String(error)}`);
  }
  throw new Error(`should have been refused, but gave ${Bun.inspect(value)}`);
}
