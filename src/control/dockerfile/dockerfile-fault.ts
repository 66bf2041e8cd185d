/** Errors of a Dockerfile, with their line. */
import { Fault } from "../../contract/fault.ts";

/** A message may quote words of the Dockerfile, which may be as long as itself. */
const MESSAGE_MAX_CHARS = 1000;

/** `line` counts from 1. */
export function faultAt(line: number, message: string): Fault {
  const cut = message.length > MESSAGE_MAX_CHARS ? `${message.slice(0, MESSAGE_MAX_CHARS)}…` : message;
  return new Fault(400, `Dockerfile, line ${line}: ${cut}`);
}
