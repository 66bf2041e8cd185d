/**
 * The filter of system calls in the form that the kernel takes. crun makes it from the profile, which is the same for
 * all sandboxes; from what it left of the first one, the next ones get it ready made. To read the profile and to find
 * out that it has compiled that before takes crun a third of its time.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../../contract/fault.ts";

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

  /**
   * Sees what crun keeps of a container that it has made: from the profile, or with `given`, which crun has to keep as
   * it is. One that does not know how to take it would leave the sandbox without a filter.
   */
  check(stateFolder: string, given: string | undefined): void {
    const kept = filterIn(stateFolder);
    if (given !== undefined && kept !== given) {
      this.#base64 = undefined;
      throw new Fault(500, "crun did not take the filter of system calls that it was given ready made");
    }
    this.#base64 ??= kept;
  }
}

/** Undefined: there is none, or this crun keeps it elsewhere. */
function filterIn(stateFolder: string): string | undefined {
  let filter: Buffer;
  try {
    filter = readFileSync(join(stateFolder, FILTER_FILE));
  } catch {
    return undefined;
  }
  const isWhole = filter.length > 0 && filter.length % INSTRUCTION_BYTES === 0;
  return isWhole && filter.length <= INSTRUCTIONS_MAX * INSTRUCTION_BYTES ? filter.toString("base64") : undefined;
}
