/** Facts that a CRIU image depends on: tool and kernel versions, and features that its processes may rely on. */
import { release } from "node:os";
import { type CgroupLayout, cgroupLayout } from "../../../../system/cgroup/cgroups.ts";
import { cpuFeatures, missingFeatures } from "../../cpu-features.ts";
import type { ImageFacts } from "../../runtime.ts";

// A type, not an interface, so that it is assignable to ImageFacts.
export type CriuFacts = {
  criu: string;
  kernel: string;
  architecture: string;
  cpuFeatures: string[];
  cgroupLayout: CgroupLayout;
};

export function criuFacts(criu: string): CriuFacts {
  return {
    criu,
    kernel: release(),
    architecture: process.arch,
    cpuFeatures: cpuFeatures(),
    cgroupLayout: cgroupLayout(),
  };
}

export function mismatch(written: ImageFacts, here: CriuFacts): string | undefined {
  if (!areOfCriu(written)) return "it was not written by CRIU";
  if (written.architecture !== here.architecture) {
    return `it was written on ${written.architecture}, this is ${here.architecture}`;
  }
  if (isOlder(here.criu, written.criu)) return `it was written by CRIU ${written.criu}, here is ${here.criu}`;
  if (isOlder(here.kernel, written.kernel)) return `it was written on Linux ${written.kernel}, here is ${here.kernel}`;
  if (written.cgroupLayout !== here.cgroupLayout) {
    return `it was written with cgroups ${written.cgroupLayout}, here they are ${here.cgroupLayout}`;
  }
  return missingFeatures(written.cpuFeatures, here.cpuFeatures);
}

function areOfCriu(facts: ImageFacts): facts is CriuFacts {
  return typeof facts.criu === "string" && typeof facts.kernel === "string" && Array.isArray(facts.cpuFeatures);
}

/** Compares the leading numbers of two versions. */
export function isOlder(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split("-")[0]?.split(".").map(Number) ?? []);
  for (let part = 0; part < Math.max(a?.length ?? 0, b?.length ?? 0); part++) {
    const [left, right] = [a?.[part] ?? 0, b?.[part] ?? 0];
    if (left !== right) return left < right;
  }
  return false;
}
