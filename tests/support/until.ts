/** Bounded waits and expected refusals. */
export { until } from "../../src/base/testing/until.ts";

/** The error that `promise` was rejected with; fails if it was not. */
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
