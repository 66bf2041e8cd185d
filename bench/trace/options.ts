/** The command line of `sandlot trace`. */
import { Fault } from "../../src/contract/fault.ts";

export const TRACED = ["create", "exec", "fork", "pause", "resume"] as const;
export type Traced = (typeof TRACED)[number];

export interface TraceOptions {
  /** What is done, in this order. */
  kinds: Traced[];
  /** One sandbox is booted ahead, which a create is handed. */
  ready: boolean;
}

const USAGE = `sandlot trace takes one or more of ${TRACED.join(", ")}, and --ready`;

export function parseTraceOptions(args: readonly string[]): TraceOptions {
  const kinds = args.filter((arg) => arg !== "--ready").map(demandTraced);
  if (kinds.length === 0) throw new Fault(400, `nothing to trace was named; ${USAGE}`);
  return { kinds, ready: args.includes("--ready") };
}

function demandTraced(text: string): Traced {
  const found = TRACED.find((kind) => kind === text);
  if (found === undefined) throw new Fault(400, `"${text}" cannot be traced; ${USAGE}`);
  return found;
}
