/** A sleep that an abort signal ends early, with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const over = Promise.withResolvers<void>();
  const timer = setTimeout(() => over.resolve(), ms);
  const stop = () => over.reject(signal.reason);
  signal.addEventListener("abort", stop);
  try {
    await over.promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}
