/** Time, for whoever is given it. Injected, so that a test can replay an hour in a millisecond. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Runs `action` once after `delayMs`. Delays above 2^31 ms are the caller's to cut. */
  after(delayMs: number, action: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};
