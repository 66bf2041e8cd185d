/** Errors of a Dockerfile, with their line. */
import { Fault } from "../../contract/fault.ts";

/** `line` counts from 1. */
export function faultAt(line: number, message: string): Fault {
  return new Fault(400, `Dockerfile, line ${line}: ${message}`);
}
