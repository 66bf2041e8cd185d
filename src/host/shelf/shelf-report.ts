/** What is kept ready at this moment and how often it was of use, in a file for the operator's commands. */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DataFolder } from "../system/data-folder.ts";

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

export class ShelfReports {
  readonly #path: string;
  #written = "";

  constructor({ runFolder }: Pick<DataFolder, "runFolder">) {
    this.#path = join(runFolder, FILE);
  }

  write(report: ShelfReport): void {
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
