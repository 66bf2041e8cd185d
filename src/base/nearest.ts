/** Finds the known word closest to a misspelt one. */

const DISTANCE_MAX = 3;

/** Undefined if every candidate differs by more than three edits or a third of its length. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const close = known
    .map((candidate) => ({ candidate, distance: distance(word, candidate) }))
    .filter(({ candidate, distance }) => distance <= Math.min(DISTANCE_MAX, Math.ceil(candidate.length / 3)));
  return close.toSorted((a, b) => a.distance - b.distance)[0]?.candidate;
}

/** Levenshtein distance: characters to insert, delete or replace. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [down, character] of [...from].entries()) {
    const above = row;
    row = [down + 1];
    for (let at = 1; at <= to.length; at++) {
      const replaced = (above[at - 1] ?? 0) + (to[at - 1] === character ? 0 : 1);
      row[at] = Math.min((above[at] ?? 0) + 1, (row[at - 1] ?? 0) + 1, replaced);
    }
  }
  return row[to.length] ?? 0;
}
