/** Facts that a runsc image depends on: the exact runsc version, and features that its processes may rely on. */
import { cpuFeatures, missingFeatures } from "../cpu-features.ts";
import type { ImageFacts } from "../runtime.ts";

// A type, not an interface, so that it is assignable to ImageFacts.
type RunscFacts = {
  runsc: string;
  architecture: string;
  cpuFeatures: string[];
};

export function runscFacts(runsc: string): RunscFacts {
  return { runsc, architecture: process.arch, cpuFeatures: cpuFeatures() };
}

export function mismatch(written: ImageFacts, here: RunscFacts): string | undefined {
  if (!areOfRunsc(written)) return "it was not written by runsc";
  if (written.architecture !== here.architecture) {
    return `it was written on ${written.architecture}, this is ${here.architecture}`;
  }
  // runsc guarantees no compatibility between versions.
  if (written.runsc !== here.runsc) return `it was written by runsc ${written.runsc}, here is ${here.runsc}`;
  return missingFeatures(written.cpuFeatures, here.cpuFeatures);
}

function areOfRunsc(facts: ImageFacts): facts is RunscFacts {
  return typeof facts.runsc === "string" && Array.isArray(facts.cpuFeatures);
}
