/** Random choices that a seed repeats. */
export class Seeded {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** From zero to below this. */
  below(bound: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * bound);
  }

  /** The same bytes in pieces of any length. */
  split(bytes: Buffer): Buffer[] {
    const pieces: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      const length = 1 + this.below(this.below(4) === 0 ? bytes.length : 16);
      pieces.push(bytes.subarray(at, at + length));
      at += length;
    }
    return pieces;
  }

  /** Some bytes are other ones, missing, or there twice. */
  mutated(bytes: Buffer): Buffer {
    let changed = Buffer.from(bytes);
    for (let count = 1 + this.below(4); count > 0; count--) {
      const at = this.below(changed.length + 1);
      const length = this.below(8);
      const before = changed.subarray(0, at);
      switch (this.below(3)) {
        case 0:
          changed = Buffer.concat([before, changed.subarray(at + length)]);
          break;
        case 1:
          changed = Buffer.concat([before, changed.subarray(at, at + length), changed.subarray(at)]);
          break;
        default:
          changed = Buffer.concat([before, Buffer.from([this.below(256)]), changed.subarray(at + 1)]);
      }
    }
    return changed;
  }
}
