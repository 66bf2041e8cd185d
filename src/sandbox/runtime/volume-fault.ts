/** Errors for a volume that cannot be mounted at its path. */
import { Fault } from "../../contract/fault.ts";

export function pathIsFileFault(inside: string, cause?: unknown): Fault {
  return new Fault(422, `a volume cannot be mounted at "${inside}": a part of it is a file of the template`, { cause });
}

/** A checkpoint could not find such a mount again. */
export function pathHasLinkFault(inside: string): Fault {
  return new Fault(
    422,
    `a volume cannot be mounted at "${inside}": a symbolic link of the template is on the way; ` +
      "name the folder that it leads to",
  );
}
