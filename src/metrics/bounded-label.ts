/** Bounds the values of a label: clients influence some of them, and every value is a series that stays in memory. */

/** Stands for all values beyond the bound. */
const OTHER = "other";

export class BoundedLabel {
  readonly #known = new Set<string>();

  constructor(private readonly max: number) {}

  /** The value itself, or `other` if there are too many. */
  of(value: string): string {
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.max) return OTHER;
    this.#known.add(value);
    return value;
  }
}

/** The entries with the largest numbers, and the sum of the rest as `other`. */
export function largest(numbers: ReadonlyMap<string, number>, max: number): Map<string, number> {
  if (numbers.size <= max) return new Map(numbers);
  const sorted = [...numbers].sort(([, one], [, other]) => other - one);
  const rest = sorted.slice(max).reduce((sum, [, number]) => sum + number, 0);
  return new Map(sorted.slice(0, max)).set(OTHER, rest);
}
