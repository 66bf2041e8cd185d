/** Names of layers: a hash of owner, base and steps. Tenants neither see nor use each other's layers. */
import { sha256 } from "../base/sha256.ts";
import type { BuildStep, StartCommand } from "../contract/internal/host.ts";

/** Raise this when steps change what they do. */
const KEY_FORMAT = 1;

export function originKey(owner: string, origin: readonly unknown[], diskSizeMB: number): string {
  return digest("origin", KEY_FORMAT, owner, origin, diskSizeMB);
}

/** Ignores `force`, which does not change what the step does. */
export function stepKey(parent: string, step: BuildStep): string {
  const { force: _, ...content } = step;
  return digest("step", parent, Object.entries(content).sort());
}

export function imageKey(parent: string, templateId: string): string {
  return digest("image", parent, templateId);
}

export function startKey(parent: string, start: StartCommand, size: readonly number[]): string {
  return digest("start", parent, start.command, start.ready, size);
}

function digest(...parts: unknown[]): string {
  return sha256(JSON.stringify(parts));
}
