/** Counts the requests of an edge process for the server's metrics. */
import { EventCounts } from "../base/event-counts.ts";
import type { RequestReport } from "../contract/internal/request-report.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import type { Refusal } from "./refusal.ts";

/** Measured starts of commands in one report; further ones are only counted. */
const EDGE_STARTS_MAX = 1_000;

/**
 * `command` starts a command, `files` transfers a file, `runtime` is any other request to a sandbox's runtime,
 * `service` one to another port, `management` one to the management API.
 */
type RequestClass = "command" | "files" | "runtime" | "service" | "management";

export class RequestCounts {
  readonly #requests = new EventCounts();
  readonly #refusals = new EventCounts();
  #starts: number[] = [];

  request(kind: RequestClass): void {
    this.#requests.add(kind);
  }

  refusal({ reason }: Refusal): void {
    this.#refusals.add(reason);
  }

  commandStarted(seconds: number): void {
    if (this.#starts.length < EDGE_STARTS_MAX) this.#starts.push(seconds);
  }

  /** Undefined: there is nothing to report. */
  take(): RequestReport | undefined {
    const [requests, refusals, starts] = [this.#requests.take(), this.#refusals.take(), this.#starts];
    if (requests === undefined && refusals === undefined && starts.length === 0) return undefined;
    this.#starts = [];
    return { requests: requests ?? {}, refusals: refusals ?? {}, starts };
  }
}

/** The class of a request to a sandbox. */
export function classOf(port: number, target: string): RequestClass {
  if (port !== RUNTIME_PORT) return "service";
  if (target.startsWith("/process.Process/Start")) return "command";
  return target.startsWith("/files") ? "files" : "runtime";
}
