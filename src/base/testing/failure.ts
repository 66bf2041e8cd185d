/**
 * What a promise is rejected with, as text. `expect(promise).rejects` runs an event loop of its own, in which
 * `setImmediate` waits for up to a second: each answer of a job thread does.
 */
export async function failureOf(work: Promise<unknown>): Promise<string> {
  return await work.then(() => "nothing: it succeeded", String);
}
