/** CPU features: a restored program relies on the features that it found before the checkpoint. */
import { readFileSync } from "node:fs";

/** Features of the first processor; x86 calls them flags, arm Features. */
export function cpuFeatures(cpuinfo = readFileSync("/proc/cpuinfo", "utf8")): string[] {
  const line = /^(?:flags|Features)\s*:(.*)$/m.exec(cpuinfo)?.[1] ?? "";
  return line.split(/\s+/).filter(Boolean).sort();
}

/** Describes the features that this machine lacks; undefined: none. */
export function missingFeatures(wanted: readonly string[], here: readonly string[]): string | undefined {
  const missing = wanted.filter((feature) => !here.includes(feature));
  return missing.length === 0 ? undefined : `this processor lacks ${missing.slice(0, 8).join(", ")}`;
}
