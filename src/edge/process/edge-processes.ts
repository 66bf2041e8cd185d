/**
 * The edge as the server sees it: several processes that listen on the same ports and get the same events. A process
 * that dies or stops responding is replaced: its connections have ended, its counts are cleared, and its successor gets
 * the whole state. An address is reused for another sandbox only when every process has confirmed that it has no
 * connection there, or is gone.
 */
import { inRequest } from "../../base/current-request.ts";
import { beginStep, recordsUsage } from "../../base/steps.ts";
import { scaled } from "../../base/time-factor.ts";
import type { Directory, WakeRequest } from "../../contract/internal/directory.ts";
import type { RequestReport } from "../../contract/internal/request-report.ts";
import { isRequestId, type RequestOrigin } from "../../contract/request-id.ts";
import { isSpanId, isTraceId } from "../../contract/trace-context.ts";
import type { ClientListener, ClientListeners, ListenerSettings } from "../front/listeners.ts";
import type { ConnectionLimits } from "../limits.ts";
import type { ManagementSocket } from "../proxy/management-peer.ts";
import type { Sampling } from "../request-trace.ts";
import type { EdgeLog } from "../routing/service-lookup.ts";
import { callLine } from "./channel.ts";
import { NumberedRoutes } from "./numbered-routes.ts";
import { ProcessHandle, type StartedProcess } from "./process-handle.ts";
import type { ProcessCalls, ServerCalls } from "./protocol.ts";
import type { SharedCounts } from "./shared-counts.ts";
import type { SpanReport } from "./span-reports.ts";

/** Interval of health checks of a process. */
const EDGE_PROCESS_PING_MS = scaled(5_000);
/** Time from the start of a process until it listens and has all routes. */
export const EDGE_PROCESS_START_MS = scaled(60_000);
/** Maximum delay between attempts to start a process. */
const EDGE_PROCESS_RESTART_MAX_MS = 5_000;

interface EdgeTraces {
  sampling: Sampling;
  /** The spans come from a process that handles hostile bytes. */
  traced(report: SpanReport): void;
}

export interface EdgeOptions {
  /** Number of processes. */
  processes: number;
  start(process: number): StartedProcess;
  directory: Directory;
  management: ManagementSocket;
  trustedProxies: readonly string[];
  limits: ConnectionLimits;
  counts: SharedCounts;
  countsFile: string;
  log: EdgeLog;
  /** Gets the reports about requests. */
  counted?(report: RequestReport): void;
  /** Absent: no traces are exported. */
  traces?: EdgeTraces | undefined;
  /** Interval of health checks, if not the default. */
  pingMs?: number;
}

export class EdgeProcesses implements ClientListeners {
  readonly #routes: NumberedRoutes;
  /** Processes by index; undefined while one is being replaced. */
  readonly #handles: (ProcessHandle | undefined)[] = [];
  readonly #fronts = new Map<number, ListenerSettings>();
  /** Addresses of all routes sent so far that no sandbox has left since. */
  readonly #addresses = new Set<string>();
  readonly #pingTimer: ReturnType<typeof setInterval>;
  #lastFront = 0;
  #isClosed = false;

  private constructor(private readonly options: EdgeOptions) {
    this.#routes = new NumberedRoutes(options.counts);
    this.#pingTimer = setInterval(() => {
      for (const handle of this.#present) handle.ping();
    }, options.pingMs ?? EDGE_PROCESS_PING_MS);
    this.#pingTimer.unref();
  }

  /** Resolves when all processes are ready. */
  static async open(options: EdgeOptions): Promise<EdgeProcesses> {
    const edge = new EdgeProcesses(options);
    options.directory.follow((event) => {
      const placed = edge.#routes.take(event);
      for (const route of placed.kind === "table" ? placed.routes : placed.kind === "route" ? [placed.route] : []) {
        edge.#addresses.add(route.endpoint.host);
      }
      const line = callLine<ProcessCalls>("take", placed);
      for (const handle of edge.#present) handle.send(line);
    });
    try {
      const numbers = Array.from({ length: options.processes }, (_, process) => process);
      const handles = await Promise.all(numbers.map((process) => edge.#start(process)));
      for (const [process, handle] of handles.entries()) void edge.#superviseProcess(process, handle);
    } catch (cause) {
      await edge.close();
      throw cause;
    }
    return edge;
  }

  async begin(settings: ListenerSettings): Promise<ClientListener> {
    const front = ++this.#lastFront;
    this.#fronts.set(front, settings);
    try {
      await this.#all((handle) => handle.ask("listen", front, settings));
    } catch (cause) {
      await this.#stopFront(front, true);
      throw cause;
    }
    return { stop: (force) => this.#stopFront(front, force) };
  }

  /**
   * Resolves when no connection to this address is left, and no earlier route leads there. A process that does not
   * confirm that is killed.
   */
  async closeConnectionsTo(host: string): Promise<void> {
    if (!this.#addresses.delete(host)) return;
    await this.#all((handle) => handle.ask("leave", host));
  }

  /** Ends all processes with their connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#pingTimer);
    await Promise.all(this.#present.map((handle) => handle.end()));
  }

  get #present(): ProcessHandle[] {
    return this.#handles.filter((handle) => handle !== undefined);
  }

  /** Calls all current processes. A call to a process that ends counts as done: it has no connections left. */
  async #all<T>(call: (handle: ProcessHandle) => Promise<T>): Promise<T[]> {
    const answers = await Promise.all(
      this.#present.map(async (handle) => {
        try {
          return [await call(handle)];
        } catch (cause) {
          if (!handle.isOver) throw cause;
          return [];
        }
      }),
    );
    return answers.flat();
  }

  async #stopFront(front: number, force: boolean): Promise<void> {
    this.#fronts.delete(front);
    await this.#all((handle) => handle.ask("stopListening", front, force));
  }

  /** Resolves when it is ready and listens. Events sent meanwhile follow its initial state. */
  async #start(process: number): Promise<ProcessHandle> {
    const { processes, management, trustedProxies, limits, counts, countsFile, directory, log, traces } = this.options;
    const shared = { countsFile, management, trustedProxies, limits, sampling: traces?.sampling };
    const handle = new ProcessHandle(this.options.start(process), {
      wake: (id, request) => inRequest(originOf(request), () => directory.wake(id, request)),
      forward: (id, port) => directory.forward(id, port),
      findSigned: (link, client) => directory.findSigned(link, client),
      log,
      counted: (report) => this.options.counted?.(report),
      traced: (report) => traces?.traced(report),
      ...stepsOfProcess(),
    });
    this.#handles[process] = handle;
    void handle.over.then(() => {
      this.#handles[process] = undefined;
      counts.clear(process);
    });
    try {
      await handle.begin(EDGE_PROCESS_START_MS, () =>
        Promise.all([
          handle.ask("begin", { ...shared, processes, process, recordsSteps: recordsUsage() }),
          handle.ask("take", this.#routes.table),
          ...[...this.#fronts].map(([front, settings]) => handle.ask("listen", front, settings)),
        ]),
      );
    } catch (cause) {
      await handle.end();
      throw cause;
    }
    return handle;
  }

  /** Keeps a process with this index running. */
  async #superviseProcess(process: number, first: ProcessHandle): Promise<void> {
    let handle: ProcessHandle | undefined = first;
    for (let fails = 0; ; ) {
      const how = await handle?.over;
      if (this.#isClosed) return;
      if (how !== undefined) {
        this.options.log("an edge process ended with its connections; it is being restarted", { process, how });
      }
      handle = await this.#start(process).catch((failure: unknown) => {
        this.options.log("an edge process could not be started", { process, failure });
        return undefined;
      });
      fails = handle === undefined ? fails + 1 : 0;
      if (handle === undefined) await Bun.sleep(Math.min(EDGE_PROCESS_RESTART_MAX_MS, 2 ** Math.min(fails, 16)));
    }
  }
}

/** The process handles hostile bytes, so its values are validated. */
function originOf({ origin }: WakeRequest): RequestOrigin | undefined {
  if (typeof origin?.id !== "string" || !isRequestId(origin.id)) return undefined;
  const { id, trace } = origin;
  return isTraceId(trace?.traceId) && isSpanId(trace?.spanId) ? { id, trace } : { id };
}

/** Shows steps of a process among those of the server. */
function stepsOfProcess(): Pick<ServerCalls, "stepBegan" | "stepEnded"> {
  const open = new Map<number, ReturnType<typeof beginStep>>();
  return {
    stepBegan(number, name) {
      if (recordsUsage()) open.set(number, beginStep(name));
    },
    stepEnded(number, as) {
      open.get(number)?.(as);
      open.delete(number);
    },
  };
}
