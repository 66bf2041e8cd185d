/** Errors of a Dockerfile, with their line. */
import { Fault } from "../../contract/fault.ts";

const SHOWN_MAX_CHARS = 80;

/** `line` counts from 1. */
export function faultAt(line: number, message: string): Fault {
  return new Fault(400, `Dockerfile, line ${line}: ${message}`);
}

export function shown(text: string): string {
  return JSON.stringify(text.length > SHOWN_MAX_CHARS ? `${text.slice(0, SHOWN_MAX_CHARS)}…` : text);
}
