/** What a memory image of runsc depends on: the very program that wrote it, and what its processes found there. */
import { cpuFeatures, lackOf } from "../cpu-features.ts";
import type { ImageFacts } from "../runtime.ts";

// A type, not an interface: it is one of the many that ImageFacts allows.
type RunscFacts = {
  runsc: string;
  architecture: string;
  cpuFeatures: string[];
};

/** Those of this machine. */
export function runscFacts(runsc: string): RunscFacts {
  return { runsc, architecture: process.arch, cpuFeatures: cpuFeatures() };
}

/** Why an image that was written with `written` cannot be restored here; undefined when it can. */
export function mismatch(written: ImageFacts, here: RunscFacts): string | undefined {
  if (!areOfRunsc(written)) return "it was not written by runsc";
  if (written.architecture !== here.architecture) {
    return `it was written on ${written.architecture}, this is ${here.architecture}`;
  }
  // It promises nothing from one version to the next.
  if (written.runsc !== here.runsc) return `it was written by runsc ${written.runsc}, here is ${here.runsc}`;
  return lackOf(written.cpuFeatures, here.cpuFeatures);
}

function areOfRunsc(facts: ImageFacts): facts is RunscFacts {
  return typeof facts.runsc === "string" && Array.isArray(facts.cpuFeatures);
}
