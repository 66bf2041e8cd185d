/**
 * The seccomp filter in the kernel's binary form. crun compiles it from the profile, which is the same for all
 * sandboxes. Later sandboxes get the compiled filter that crun left for the first one: reading the profile and finding
 * it in its own cache takes crun a third of its time.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../../contract/fault.ts";

export const FILTER_ANNOTATION = "run.oci.seccomp_bpf_data";

/** File in crun's state folder of a container. */
const FILTER_FILE = "seccomp.bpf";
const INSTRUCTION_BYTES = 8;
/** The kernel's limit. */
const INSTRUCTIONS_MAX = 4096;

export class CompiledFilter {
  #base64: string | undefined;

  /** Undefined: crun has to compile it. */
  get base64(): string | undefined {
    return this.#base64;
  }

  /**
   * Reads the filter that crun kept for a new container, made from the profile or from `given`. A given filter must be
   * kept unchanged: a crun that ignores the annotation would leave the sandbox without a filter.
   */
  check(stateFolder: string, given: string | undefined): void {
    const kept = filterIn(stateFolder);
    if (given !== undefined && kept !== given) {
      this.#base64 = undefined;
      throw new Fault(500, "crun ignored the compiled system call filter");
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
