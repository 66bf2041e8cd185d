/** The processes of clients, and for a while the outcomes of ended ones, for clients that lost their connection. */
import type { ProcessSelector } from "../../contract/runtime/wire/process/process_pb.ts";
import { quote } from "../system/quote.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { GuestProcess } from "./guest-process.ts";
import type { EndEvent } from "./outcome.ts";

export const EXIT_RETENTION_MS = 30_000;
const EXITS_RETAINED_MAX = 1024;

interface PastProcess {
  pid: number;
  tag: string | undefined;
  end: EndEvent;
}

export class ProcessTable {
  /** In start order. Not keyed by pid: while a descendant holds a process's output open, its pid may be reused. */
  readonly #running = new Set<GuestProcess>();
  readonly #past = new Set<PastProcess>();

  constructor(private readonly retentionMs: number = EXIT_RETENTION_MS) {}

  add(process: GuestProcess): void {
    this.#forget((past) => past.pid === process.pid || (process.tag !== undefined && past.tag === process.tag));
    this.#running.add(process);
    void process.ended.then((end) => this.#retire(process, end));
  }

  list(): GuestProcess[] {
    return [...this.#running];
  }

  findRunning(selector: ProcessSelector | undefined): GuestProcess {
    const found = this.list().findLast(matcher(selector));
    if (found === undefined) throw refuse("not_found", `no running process has ${describe(selector)}`);
    return found;
  }

  find(selector: ProcessSelector | undefined): GuestProcess | PastProcess {
    const matches = matcher(selector);
    const found = this.list().findLast(matches) ?? [...this.#past].findLast(matches);
    if (found === undefined) throw refuse("not_found", `no process has ${describe(selector)}`);
    return found;
  }

  #retire(process: GuestProcess, end: EndEvent): void {
    this.#running.delete(process);
    const past: PastProcess = { pid: process.pid, tag: process.tag, end };
    this.#past.add(past);
    const [oldest = past] = this.#past;
    if (this.#past.size > EXITS_RETAINED_MAX) this.#past.delete(oldest);
    setTimeout(() => this.#past.delete(past), this.retentionMs).unref();
  }

  #forget(matches: (past: PastProcess) => boolean): void {
    for (const past of this.#past) if (matches(past)) this.#past.delete(past);
  }
}

function matcher(
  selector: ProcessSelector | undefined,
): (process: { pid: number; tag: string | undefined }) => boolean {
  const wanted = selector?.selector;
  switch (wanted?.case) {
    case "pid":
      return (process) => process.pid === wanted.value;
    case "tag":
      return (process) => process.tag === wanted.value;
    default:
      throw refuse("unimplemented", "the process selector is empty; give a pid or a tag");
  }
}

function describe(selector: ProcessSelector | undefined): string {
  const wanted = selector?.selector;
  return wanted?.case === "tag" ? `the tag ${quote(wanted.value)}` : `the pid ${wanted?.value}`;
}
