/** The command line of `sandlot trace`. */
import { parseWords } from "../../src/cli/commands.ts";
import { Fault } from "../../src/contract/fault.ts";

export const TRACED = ["create", "exec", "fork", "pause", "resume"] as const;
export type Traced = (typeof TRACED)[number];

export interface TraceOptions {
  /** What is done, in this order. */
  kinds: Traced[];
  /** One sandbox is booted ahead, which a create is handed. */
  ready: boolean;
}

export function parseTraceOptions(words: readonly string[]): TraceOptions {
  const { positionals, values } = parseWords("trace", words);
  return { kinds: positionals.map(demandTraced), ready: values.ready === true };
}

function demandTraced(text: string): Traced {
  const found = TRACED.find((kind) => kind === text);
  if (found === undefined) throw new Fault(400, `"${text}" cannot be traced; one or more of ${TRACED.join(", ")} can`);
  return found;
}
