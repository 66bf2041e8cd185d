/**
 * The filter of system calls in the form that the kernel takes. crun makes it from the profile, which is the same for
 * all sandboxes; from what it left of the first one, the next ones get it ready made. To read the profile and to find
 * out that it has compiled that before takes crun a third of its time.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Which crun takes instead of a profile, in base64. */
export const FILTER_ANNOTATION = "run.oci.seccomp_bpf_data";

/** In the folder that crun keeps of a container. */
const FILTER_FILE = "seccomp.bpf";
const INSTRUCTION_BYTES = 8;
/** The kernel takes no more. */
const INSTRUCTIONS_MAX = 4096;

export class CompiledFilter {
  #base64: string | undefined;

  /** Undefined: crun has to make it. */
  get base64(): string | undefined {
    return this.#base64;
  }

  /** From the folder of a container that crun has made from the profile. Without one, crun goes on making it. */
  learnFrom(stateFolder: string): void {
    if (this.#base64 !== undefined) return;
    try {
      const filter = readFileSync(join(stateFolder, FILTER_FILE));
      const isWhole = filter.length > 0 && filter.length % INSTRUCTION_BYTES === 0;
      if (isWhole && filter.length <= INSTRUCTIONS_MAX * INSTRUCTION_BYTES) this.#base64 = filter.toString("base64");
    } catch {
      // A crun that keeps it elsewhere.
    }
  }
}
