/** The command line of `sandlot trace`. */
import { parseWords } from "../../src/cli/command-line.ts";
import { Fault } from "../../src/contract/fault.ts";

export const TRACED = ["create", "exec", "fork", "pause", "resume"] as const;
export type Traced = (typeof TRACED)[number];

export interface TraceOptions {
  /** The operations, in this order. */
  kinds: Traced[];
  /** Boots one sandbox ahead for the create. */
  ready: boolean;
}

export function parseTraceOptions(words: readonly string[]): TraceOptions {
  const { positionals, values } = parseWords("trace", words);
  return { kinds: positionals.map(requireTraced), ready: values.ready === true };
}

function requireTraced(text: string): Traced {
  const found = TRACED.find((kind) => kind === text);
  if (found === undefined) throw new Fault(400, `"${text}" cannot be traced; one or more of ${TRACED.join(", ")} can`);
  return found;
}
