/** What the processors can do: what a program found there, it takes for granted after a restore. */
import { readFileSync } from "node:fs";

/** Of the first processor; x86 calls them flags, arm Features. */
export function cpuFeatures(cpuinfo = readFileSync("/proc/cpuinfo", "utf8")): string[] {
  const line = /^(?:flags|Features)\s*:(.*)$/m.exec(cpuinfo)?.[1] ?? "";
  return line.split(/\s+/).filter(Boolean).sort();
}

/** In words, what these processors cannot do of it; undefined: nothing. */
export function lackOf(wanted: readonly string[], here: readonly string[]): string | undefined {
  const missing = wanted.filter((feature) => !here.includes(feature));
  return missing.length === 0 ? undefined : `this processor lacks ${missing.slice(0, 8).join(", ")}`;
}
