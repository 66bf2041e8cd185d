/** Times in milliseconds: how they are taken, and what is said of many of them. */

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

/**
 * Turn and turn about, so that whatever else the machine does meets both sides alike. Each side answers its own time.
 */
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
 * The second of two in a row. After a pause the kernel takes ten milliseconds and more to let crun change cgroups,
 * right after another change it does not; and a floor is the least there is.
 */
export async function secondTimed(work: () => Promise<unknown>): Promise<number> {
  await work();
  return await timed(work);
}

/** Does the same with each, so many at a time. */
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

/** How many there were in a second, of which `count` took `ms`. */
export function perSecond(count: number, ms: number): number {
  return count / (ms / 1000);
}

export function summary(samples: readonly number[]): Summary {
  return { median: quantile(samples, 0.5), p10: quantile(samples, 0.1), p90: quantile(samples, 0.9) };
}

/** Between the two nearest samples, in proportion. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const [below, above] = [sorted[Math.floor(position)], sorted[Math.ceil(position)]];
  if (below === undefined || above === undefined) throw new Error("no samples, no quantile");
  return below + (above - below) * (position - Math.floor(position));
}
