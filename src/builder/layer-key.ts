/**
 * Names of layers: what a build has made so far is the same if it began with the same and did the same. The owner is in
 * it, so that nobody learns or takes what another's build made.
 */
import { createHash } from "node:crypto";
import type { BuildStep, StartCommand } from "../contract/internal/host.ts";

/** Raised when steps do something else than before. */
const KEY_FORMAT = 1;

export function originKey(owner: string, origin: readonly unknown[], diskSizeMB: number): string {
  return digest("origin", KEY_FORMAT, owner, origin, diskSizeMB);
}

/** Whether a step was forced says nothing about what it does. */
export function stepKey(parent: string, step: BuildStep): string {
  const { force: _, ...said } = step;
  return digest("step", parent, Object.entries(said).sort());
}

export function imageKey(parent: string, templateId: string): string {
  return digest("image", parent, templateId);
}

export function startKey(parent: string, start: StartCommand, size: readonly number[]): string {
  return digest("start", parent, start.command, start.ready, size);
}

function digest(...parts: unknown[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}
