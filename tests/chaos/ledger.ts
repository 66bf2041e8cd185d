/** A second implementation of ledger.py: the state it must hold after a number of steps. */
import { createHash } from "node:crypto";

export const LEDGER_PORT = 4998;

/** The program's report about its own state. */
export interface LedgerReport {
  steps: number;
  anonymous: string;
  shared: string;
  sharedOnDisk: string;
  file: string;
}

const AREAS = {
  anonymous: { bytes: 16 << 20, block: 65_536, digestAt: 0 },
  shared: { bytes: 4 << 20, block: 16_384, digestAt: 4 },
  file: { bytes: 2 << 20, block: 4_096, digestAt: 8 },
} as const;
type Area = keyof typeof AREAS;

export class Ledger {
  #steps = 0;
  readonly #contents: Record<Area, Buffer>;

  private constructor(contents: Record<Area, Buffer>, steps: number) {
    this.#contents = contents;
    this.#steps = steps;
  }

  static empty(): Ledger {
    const of = (area: Area) => Buffer.alloc(AREAS[area].bytes);
    return new Ledger({ anonymous: of("anonymous"), shared: of("shared"), file: of("file") }, 0);
  }

  /** For a sandbox that goes its own way from here on. */
  copy(): Ledger {
    const { anonymous, shared, file } = this.#contents;
    const contents = { anonymous: Buffer.from(anonymous), shared: Buffer.from(shared), file: Buffer.from(file) };
    return new Ledger(contents, this.#steps);
  }

  /** The report that is right after so many steps; there is no way back. */
  after(steps: number): LedgerReport {
    if (steps < this.#steps) throw new Error(`the ledger has gone back from step ${this.#steps} to ${steps}`);
    while (this.#steps < steps) this.#step();
    const digest = (area: Area) => createHash("sha256").update(this.#contents[area]).digest("hex");
    const shared = digest("shared");
    return { steps, anonymous: digest("anonymous"), shared, sharedOnDisk: shared, file: digest("file") };
  }

  #step(): void {
    const digest = createHash("sha256").update(String(this.#steps)).digest();
    for (const [area, { bytes, block, digestAt }] of Object.entries(AREAS)) {
      const content = this.#contents[area as Area];
      const begin = (digest.readUInt32LE(digestAt) % (bytes / block)) * block;
      for (let at = 0; at < block; at++) content[begin + at] = (content[begin + at] ?? 0) ^ (digest[at % 32] ?? 0);
    }
    this.#steps++;
  }
}
