/** Calls between the server and an edge process: plain data in and out. */
import type { Step } from "../../base/steps.ts";
import type { Directory } from "../../contract/internal/directory.ts";
import type { RequestReport } from "../../contract/internal/request-report.ts";
import type { ListenerSettings } from "../front/listeners.ts";
import type { ConnectionLimits } from "../limits.ts";
import type { ManagementSocket } from "../proxy/management-peer.ts";
import type { Sampling } from "../request-trace.ts";
import type { PlacedEvent } from "../routing/route-table.ts";
import type { SpanReport } from "./span-reports.ts";

/** Calls from the server to the process. */
export interface ProcessCalls {
  /** Always the first call. */
  begin(settings: ProcessSettings): void;
  take(event: PlacedEvent): void;
  /** When it returns, no connection to this address is left. */
  leave(host: string): void;
  listen(front: number, settings: ListenerSettings): void;
  /** As `stop` of a front. */
  stopListening(front: number, force: boolean): Promise<void>;
  /** Health check. */
  ping(): void;
}

/** Calls from the process to the server. */
export interface ServerCalls extends Omit<Directory, "follow"> {
  log(message: string, context: Record<string, unknown>): void;
  /** Called at intervals, if there is anything to report. */
  counted(report: RequestReport): void;
  /** Called at intervals, if there are spans. */
  traced(report: SpanReport): void;
  /** A step of this process, with its own numbers. Only while steps are recorded. */
  stepBegan(number: number, name: string): void;
  stepEnded(number: number, as: Pick<Step, "beganAt" | "wallMs" | "uses">): void;
}

export interface ProcessSettings {
  /** Number of processes, and the index of this one, from 0. */
  processes: number;
  process: number;
  /** Shared memory for the counters of all processes. */
  countsFile: string;
  management: ManagementSocket;
  trustedProxies: readonly string[];
  limits: ConnectionLimits;
  /** Whether steps are recorded. */
  recordsSteps: boolean;
  /** Absent: no traces are exported. */
  sampling?: Sampling | undefined;
}
