/** Why a volume cannot be mounted where it was asked for, in words for whoever asked. */
import { Fault } from "../../contract/fault.ts";

export function fileOnTheWay(inside: string, cause?: unknown): Fault {
  return new Fault(422, `a volume cannot be mounted at "${inside}": a part of it is a file of the template`, { cause });
}

/** It would not be found again when the sandbox is written down. */
export function linkOnTheWay(inside: string): Fault {
  return new Fault(
    422,
    `a volume cannot be mounted at "${inside}": a symbolic link of the template is on the way; ` +
      "name the folder that it leads to",
  );
}
