/**
 * The edge inside its own process: the server sends its routes, and it calls the server for everything else. Bytes
 * between clients and sandboxes only pass through this process.
 */
import type { Splice } from "../../base/splicing.ts";
import { recordSteps, type Step, spanOfStep } from "../../base/steps.ts";
import { Edge } from "../edge.ts";
import { EdgeListener } from "../front/edge-listener.ts";
import { EDGE_UNSENT_MAX_BYTES } from "../limits.ts";
import type { SocketBuffers } from "../proxy/sandbox-socket.ts";
import { RequestCounts } from "../request-counts.ts";
import { RequestTraces } from "../request-trace.ts";
import { TrustedProxies } from "../routing/client-address.ts";
import { RouteTable } from "../routing/route-table.ts";
import { Channel } from "./channel.ts";
import type { ProcessCalls, ProcessSettings, ServerCalls } from "./protocol.ts";
import { SharedCounts } from "./shared-counts.ts";
import { SharedQuota } from "./shared-quota.ts";
import { SpanReports } from "./span-reports.ts";

/** Interval of reports about requests. */
const EDGE_COUNTS_EVERY_MS = 1_000;

/** What the program that starts the edge provides. */
interface ProcessServices {
  send(line: string): void;
  /** Of several generations of listeners on a port, one per process each, the newest gets new connections. */
  routeToNewestListener(port: number, processes: number): void;
  /** Kernel settings of sockets, by descriptor. */
  sockets: SocketBuffers & {
    /** All clients of this listener run on this machine. */
    staysOnMachine(listener: number): void;
  };
  /** Moves long bodies. */
  splice: Splice;
}

export class EdgeProcess {
  readonly #channel: Channel<ServerCalls>;
  readonly #routes = new RouteTable();
  readonly #fronts = new Map<number, EdgeListener>();
  #processes = 1;
  #edge: Edge | undefined;

  constructor(private readonly surroundings: ProcessServices) {
    this.#channel = new Channel<ServerCalls>(surroundings.send, this.#calls());
  }

  received(line: string): void {
    this.#channel.received(line);
  }

  #calls(): ProcessCalls {
    const routes = this.#routes;
    const { sockets, routeToNewestListener } = this.surroundings;
    return {
      begin: (settings) => this.#begin(settings),
      take: (event) => routes.take(event),
      leave: (host) => routes.closeConnectionsTo(host),
      listen: (front, { hostname, port, tls, idleMs }) => {
        const options = { hostname, port, idleMs, reusePort: true, handle: this.#requireEdge.handle };
        const listening = new EdgeListener(tls === undefined ? options : { ...options, tls });
        this.#fronts.set(front, listening);
        const { descriptor } = listening;
        if (descriptor !== undefined) sockets.boundUnsent(descriptor, EDGE_UNSENT_MAX_BYTES);
        if (descriptor !== undefined && listening.isLocal) sockets.staysOnMachine(descriptor);
        if (tls !== undefined) routeToNewestListener(port, this.#processes);
      },
      stopListening: async (front, force) => {
        await this.#fronts.get(front)?.stop(force);
        this.#fronts.delete(front);
      },
      ping: () => undefined,
    };
  }

  get #requireEdge(): Edge {
    if (this.#edge === undefined) throw new Error("an edge process got a call before its settings");
    return this.#edge;
  }

  #begin(settings: ProcessSettings): void {
    const { processes, process, countsFile, management, trustedProxies, limits } = settings;
    const channel = this.#channel;
    const { sampling } = settings;
    const spans = sampling && new SpanReports();
    recordStepsFor(channel, settings.recordsSteps, spans);
    const requests = new RequestCounts();
    setInterval(() => {
      const report = requests.take();
      if (report !== undefined) void channel.call("counted", report).catch(() => undefined);
      const traced = spans?.take();
      if (traced !== undefined) void channel.call("traced", traced).catch(() => undefined);
    }, EDGE_COUNTS_EVERY_MS).unref();
    const counts = new SharedCounts(Bun.mmap(countsFile, { shared: true }), processes);
    this.#processes = processes;
    this.#edge = new Edge({
      directory: {
        follow: () => undefined,
        wake: (id, request) => channel.call("wake", id, request),
        forward: (id, port) => channel.call("forward", id, port),
        findSigned: (link, client) => channel.call("findSigned", link, client),
      },
      routes: this.#routes,
      management,
      log: (message, context) => void channel.call("log", message, withoutErrors(context)).catch(() => undefined),
      trustedProxies: new TrustedProxies(trustedProxies),
      quota: new SharedQuota(counts, process, processes, limits),
      counts: requests,
      splice: this.surroundings.splice,
      buffers: this.surroundings.sockets,
      traces: sampling && spans && new RequestTraces(sampling, spans.add),
    });
  }
}

/** JSON has no representation of an error. */
function withoutErrors(context: Record<string, unknown>): Record<string, unknown> {
  const details = Object.entries(context).map(([name, value]) => [
    name,
    value instanceof Error ? String(value) : value,
  ]);
  return Object.fromEntries(details);
}

/** Sends steps to the server as they happen, if it records them, and adds those of traces to the report. */
function recordStepsFor(channel: Channel<ServerCalls>, reportsSteps: boolean, spans: SpanReports | undefined): void {
  const addSpan = (step: Step) => {
    const span = spanOfStep(step);
    if (span !== undefined) spans?.add(span);
  };
  if (!reportsSteps) {
    if (spans !== undefined) recordSteps({ write: addSpan });
    return;
  }
  recordSteps({
    read() {
      const { user, system } = process.cpuUsage();
      return { edge: (user + system) / 1000 };
    },
    began: (number, name) => void channel.call("stepBegan", number, name).catch(() => undefined),
    write(step) {
      const { number, beganAt, wallMs, uses } = step;
      void channel.call("stepEnded", number, { beganAt, wallMs, uses }).catch(() => undefined);
      addSpan(step);
    },
  });
}
