/** Runs the same work for many items, a few at a time. */

const AT_ONCE = 4;

export async function forEachLimited<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const line = [...items];
  const worker = async () => {
    for (let next = line.shift(); next !== undefined; next = line.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
