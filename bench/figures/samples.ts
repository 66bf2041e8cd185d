/** Times in milliseconds: how to take and summarize them. */

export interface Pairs {
  ours: number[];
  peer: number[];
}

export interface Summary {
  median: number;
  p10: number;
  p90: number;
}

/** The first rounds fill caches on both sides and do not count. */
const WARM_UP_ROUNDS = 2;

/** Alternates both sides, so that other load on the machine affects them alike. Each side returns its own time. */
export async function interleave(
  rounds: number,
  ours: () => Promise<number>,
  peer: () => Promise<number>,
  warmUpRounds = WARM_UP_ROUNDS,
): Promise<Pairs> {
  const pairs: Pairs = { ours: [], peer: [] };
  for (let round = -warmUpRounds; round < rounds; round++) {
    const [oursMs, peerMs] = [await ours(), await peer()];
    if (round < 0) continue;
    pairs.ours.push(oursMs);
    pairs.peer.push(peerMs);
  }
  return pairs;
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

/**
 * Times the second of two consecutive runs. After a pause the kernel needs ten milliseconds and more to let crun change
 * cgroups, but not right after another change; and a floor is the least possible time.
 */
export async function secondTimed(work: () => Promise<unknown>): Promise<number> {
  await work();
  return await timed(work);
}

/** Processes all items with this concurrency. */
export async function inTurns<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const line = [...items];
  const worker = async () => {
    for (let next = line.shift(); next !== undefined; next = line.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
}

/** The rate of `count` events in `ms`. */
export function perSecond(count: number, ms: number): number {
  return count / (ms / 1000);
}

export function summary(samples: readonly number[]): Summary {
  return { median: quantile(samples, 0.5), p10: quantile(samples, 0.1), p90: quantile(samples, 0.9) };
}

/** Interpolates linearly between the two nearest samples. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const [below, above] = [sorted[Math.floor(position)], sorted[Math.ceil(position)]];
  if (below === undefined || above === undefined) throw new Error("no samples, no quantile");
  return below + (above - below) * (position - Math.floor(position));
}
