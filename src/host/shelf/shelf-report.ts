/** What is kept ready at this moment and how often it was of use, in a file for the operator's commands. */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock, Timer } from "../../work/clock.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { SHELF_REPORT_EVERY_MS } from "./limits.ts";

const FILE = "shelf.json";

/** How creates were served: by one that was ready, by one that was about to be, by neither. */
interface ServeCounts {
  hits: number;
  joined: number;
  misses: number;
}

export interface TemplateOnShelf extends ServeCounts {
  templateId: string;
  /** How many are ready, on their way, there should be, and are kept in any case. */
  ready: number;
  making: number;
  target: number;
  floor: number;
}

/** The counts are since the server started, of all creates that could have been served. */
export interface ShelfReport extends ServeCounts {
  templates: readonly TemplateOnShelf[];
}

/** Parts of one template are taken together: it may have several builds. */
export function byTemplate(parts: readonly TemplateOnShelf[]): TemplateOnShelf[] {
  const templates = new Map<string, TemplateOnShelf>();
  for (const part of parts) {
    const sum = templates.get(part.templateId);
    if (sum === undefined) templates.set(part.templateId, { ...part });
    else for (const name of NUMBERS) sum[name] += part[name];
  }
  return [...templates.values()];
}

const NUMBERS = ["ready", "making", "target", "floor", "hits", "joined", "misses"] as const;

interface ShelfReportsParts {
  data: Pick<DataFolder, "runFolder">;
  clock: Clock;
  failed(error: unknown): void;
}

/** Each boot and each create changes something, and the operator looks now and then: it is written now and then. */
export class ShelfReports {
  readonly #parts: ShelfReportsParts;
  readonly #path: string;
  #written = "";
  #writtenAt = Number.NEGATIVE_INFINITY;
  #last: ShelfReport | undefined;
  #timer: Timer | undefined;

  constructor(parts: ShelfReportsParts) {
    this.#parts = parts;
    this.#path = join(parts.data.runFolder, FILE);
  }

  /** Never throws. */
  note(report: ShelfReport): void {
    this.#last = report;
    if (this.#timer !== undefined) return;
    const { clock } = this.#parts;
    const waitMs = this.#writtenAt + SHELF_REPORT_EVERY_MS - clock.now();
    if (waitMs <= 0) this.#writeSafely();
    else this.#timer = clock.after(Math.min(waitMs, SHELF_REPORT_EVERY_MS), () => this.#writeSafely());
  }

  #writeSafely(): void {
    this.#timer = undefined;
    this.#writtenAt = this.#parts.clock.now();
    try {
      if (this.#last !== undefined) this.#write(this.#last);
    } catch (error) {
      this.#parts.failed(error);
    }
  }

  #write(report: ShelfReport): void {
    const text = JSON.stringify(report);
    if (text === this.#written) return;
    // In one step: whoever reads it finds all of it.
    writeFileSync(`${this.#path}.new`, text, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
    this.#written = text;
  }
}

/** Undefined: no server runs, or it has written none yet. */
export function readShelfReport(data: Pick<DataFolder, "runFolder" | "inUse">): ShelfReport | undefined {
  const path = join(data.runFolder, FILE);
  return existsSync(path) && data.inUse ? (JSON.parse(readFileSync(path, "utf8")) as ShelfReport) : undefined;
}
