/**
 * The server's metrics, in the registry of prom-client. Instruments count as things happen; gauges are read when
 * the text is requested. docs/monitoring.md describes each metric.
 *
 * This module reads what others report. It changes nothing, and no request waits for it.
 */
import { readdirSync } from "node:fs";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { LogEntry } from "../base/log.ts";
import { wrapCalls } from "../base/wrapped-calls.ts";
import { Fault } from "../contract/fault.ts";
import type { BuildOutcome, CheckpointOptions, CreatedSandbox, Host } from "../contract/internal/host.ts";
import type { RequestReport } from "../contract/internal/request-report.ts";
import { MIB } from "../contract/limit.ts";
import { BoundedLabel, largest } from "./bounded-label.ts";
import type { SpanOutcome } from "./span-exporter.ts";

/** Buckets in seconds. */
const OPERATION_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const BUILD_SECONDS = [1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600];
const REQUEST_SECONDS = [0.005, 0.025, 0.1, 0.5, 2.5, 10];
const STORE_SECONDS = [0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 1];
const START_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];
const DELAY_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

/**
 * Statuses that alerts count. Their series begin at zero: Prometheus sees no increase in a series whose first sample
 * is already a burst of failures.
 */
const ALERTED_STATUSES = ["500", "503", "507"];
const ALERTED_REQUEST_STATUS = "500";
/** Stands for requests that no route matches. */
const NO_ROUTE = "none";

/** Values of labels that depend on teams, templates or texts in the code. */
export const METRIC_TEAMS_MAX = 50;
export const METRIC_TEMPLATES_MAX = 50;
export const METRIC_EVENTS_MAX = 200;
const METRIC_ROUTES_MAX = 200;
/** Distinct names accepted from edge processes and the relay, which handle hostile bytes. */
const METRIC_NAMES_MAX = 50;
/** Interval of the measurement of the event loop's delay. */
const DELAY_LOOK_MS = 500;
/** Scrapes within this time share one reading. */
const TEXT_KEPT_MS = 1_000;

/** Gauges without labels: their help and their value. */
const NUMBERS: Readonly<Record<string, readonly [help: string, value: (readings: Readings) => number]>> = {
  sandlot_slots: ["Network slots, one for each sandbox that runs or is ready.", ({ slots }) => slots.total],
  sandlot_slots_free: ["Network slots that are free.", ({ slots }) => slots.free],
  sandlot_disk_bytes: ["Size of the filesystem that holds the disks of sandboxes.", ({ disk }) => disk.totalBytes],
  sandlot_disk_free_bytes: [
    "Free space of the filesystem that holds the disks of sandboxes.",
    ({ disk }) => disk.freeBytes,
  ],
  sandlot_data_bytes: ["Size of the filesystem that holds the data folder.", ({ dataDisk }) => dataDisk.totalBytes],
  sandlot_data_free_bytes: [
    "Free space of the filesystem that holds the data folder.",
    ({ dataDisk }) => dataDisk.freeBytes,
  ],
  sandlot_memory_bytes: [
    "Memory that sandboxes and the server have together: of the machine, or of a cgroup limit.",
    ({ memory }) => memory.totalBytes,
  ],
  sandlot_memory_available_bytes: ["Memory that sandboxes can still get.", ({ memory }) => memory.availableBytes],
  sandlot_memory_reserve_bytes: ["Memory that stays available.", ({ memory }) => memory.reserveBytes],
  sandlot_memory_short: ["1 while no sandbox starts because memory is short.", ({ memory }) => Number(memory.isShort)],
  sandlot_memory_used_bytes: [
    "Memory that sandboxes use, ready ones and their page cache included.",
    ({ memory }) => memory.usedBytes,
  ],
  sandlot_shared_memory_bytes: ["Memory kept once for several processes.", ({ memory }) => memory.sharedBytes],
  sandlot_shared_memory_saved_bytes: ["Memory that sharing saves.", ({ memory }) => memory.savedBytes],
};

/** Gauges of the ready pool by template: `sandlot_ready_pool_…`. */
const POOL = {
  ready: "Sandboxes that wait for a create.",
  making: "Sandboxes that are being made ready.",
  target: "Sandboxes that should be ready.",
  floor: "Sandboxes that are kept ready in any case.",
} as const;

interface Space {
  totalBytes: number;
  freeBytes: number;
}

/** The machine and its sandboxes at this moment. */
export interface Readings {
  slots: { total: number; free: number };
  /** The filesystem with the disks of sandboxes. */
  disk: Space;
  /** The filesystem of the data folder. */
  dataDisk: Space;
  memory: {
    totalBytes: number;
    availableBytes: number;
    reserveBytes: number;
    isShort: boolean;
    usedBytes: number;
    /** Kept once for several processes. */
    sharedBytes: number;
    savedBytes: number;
  };
  sandboxes: readonly { team: string; state: string; count: number; memoryMB: number }[];
  pool: {
    templates: readonly { templateId: string; ready: number; making: number; target: number; floor: number }[];
    hits: number;
    joined: number;
    misses: number;
  };
}

interface MetricsServices {
  version: string;
  read(): Promise<Readings>;
}

export class ServerMetrics {
  readonly #registry = new Registry();
  readonly #creates = this.#histogram("sandlot_create_seconds", "Creates by their origin.", OPERATION_SECONDS, [
    "origin",
  ]);
  readonly #operations = this.#histogram(
    "sandlot_operation_seconds",
    "Completed operations on sandboxes.",
    OPERATION_SECONDS,
    ["operation"],
  );
  readonly #builds = this.#histogram("sandlot_build_seconds", "Builds by outcome.", BUILD_SECONDS, ["outcome"]);
  readonly #failures = this.#counter("sandlot_operation_failures_total", "Failed operations.", ["operation", "status"]);
  readonly #requests = this.#counter("sandlot_requests_total", "Requests to the management API.", ["route", "status"]);
  readonly #requestSeconds = this.#histogram(
    "sandlot_request_seconds",
    "Time until the response of the management API begins.",
    REQUEST_SECONDS,
    ["route"],
  );
  readonly #store = this.#histogram("sandlot_store_seconds", "Calls to the store.", STORE_SECONDS, ["table"]);
  readonly #logEvents = this.#counter("sandlot_log_events_total", "Log lines with a warning or an error.", [
    "level",
    "event",
  ]);
  readonly #edge = {
    requests: this.#counter("sandlot_edge_requests_total", "Requests of clients.", ["class"]),
    refusals: this.#counter("sandlot_edge_refusals_total", "Requests that the edge refused.", ["reason"]),
    starts: this.#histogram("sandlot_command_start_seconds", "Time until a command has started.", START_SECONDS, []),
  };
  readonly #connections = this.#counter(
    "sandlot_relay_connections_total",
    "Connections of sandboxes with name rules.",
    ["decision"],
  );
  readonly #queries = this.#counter("sandlot_dns_queries_total", "DNS queries of sandboxes.", ["decision"]);
  readonly #spans = this.#counter("sandlot_spans_total", "Spans of traces, by what became of them.", ["outcome"]);
  readonly #delay = this.#histogram(
    "sandlot_event_loop_delay_seconds",
    "Delay of the server's event loop, measured twice a second.",
    DELAY_SECONDS,
    [],
  );
  readonly #poolCreates = this.#counter(
    "sandlot_ready_pool_creates_total",
    "Creates by what served them, since the server started.",
    ["served"],
  );
  readonly #numbers = Object.entries(NUMBERS).map(([name, [help, value]]) => ({
    gauge: this.#gauge(name, help),
    value,
  }));
  readonly #pool = Object.entries(POOL).map(([key, help]) => ({
    key: key as keyof typeof POOL,
    gauge: this.#gauge(`sandlot_ready_pool_${key}`, help, ["template"]),
  }));
  readonly #sandboxes = this.#gauge("sandlot_sandboxes", "Sandboxes by state.", ["state"]);
  readonly #teams = this.#gauge("sandlot_team_sandboxes", "Sandboxes of a team that are not paused.", ["team"]);
  readonly #promised = this.#gauge("sandlot_memory_promised_bytes", "Memory sizes of sandboxes that are not paused.");
  readonly #cpu = this.#counter("process_cpu_seconds_total", "Processor time of the server process.");
  readonly #resident = this.#gauge("process_resident_memory_bytes", "Resident memory of the server process.");
  readonly #files = this.#gauge("process_open_fds", "Open files of the server process.");
  readonly #events = new BoundedLabel(METRIC_EVENTS_MAX);
  readonly #names = new BoundedLabel(METRIC_NAMES_MAX);
  readonly #routes = new BoundedLabel(METRIC_ROUTES_MAX);
  readonly #delayTimer: Timer;
  #text: { at: number; text: Promise<string> } | undefined;

  constructor(private readonly services: MetricsServices) {
    this.#gauge("sandlot_info", "1, with the version.", ["version"]).set({ version: services.version }, 1);
    this.#gauge("process_start_time_seconds", "Start of the server process.").set(performance.timeOrigin / 1000);
    let dueAt = performance.now() + DELAY_LOOK_MS;
    this.#delayTimer = setInterval(() => {
      const now = performance.now();
      this.#delay.observe(Math.max(0, now - dueAt) / 1000);
      dueAt = now + DELAY_LOOK_MS;
    }, DELAY_LOOK_MS);
    this.#delayTimer.unref();
  }

  /** Counts creates, pauses, resumes, snapshots, forks, ends and builds. */
  watchHost(host: Host): void {
    const copying = (_id: string, _name: string, { temporary }: CheckpointOptions) =>
      temporary === true ? "fork" : "snapshot";
    const names = {
      create: "create",
      pause: "pause",
      resume: "resume",
      snapshot: copying,
      destroy: "destroy",
    } as const;
    this.#beginFailures("create", "pause", "resume", "snapshot", "fork", "destroy", "build");
    wrapCalls(host, { ...names, build: "build" }, (operation, work) =>
      timed(work, (seconds, result, failure) => {
        if (failure !== undefined) return this.#fail(operation, failure);
        if (operation === "create") this.#creates.observe({ origin: (result as CreatedSandbox).origin }, seconds);
        else if (operation !== "build") this.#operations.observe({ operation }, seconds);
        else this.#builds.observe({ outcome: (result as BuildOutcome).isReady ? "ready" : "failed" }, seconds);
      }),
    );
  }

  /** Counts wakes by traffic. */
  watchWakes(directory: { wake(...args: never[]): Promise<object> }): void {
    this.#beginFailures("wake");
    wrapCalls(directory, { wake: "wake" }, (operation, work) =>
      timed(work, (seconds, result, failure) => {
        if (failure !== undefined) this.#fail(operation, failure);
        else if ("woken" in (result as object)) this.#operations.observe({ operation }, seconds);
      }),
    );
  }

  watchStore(store: object): void {
    for (const [table, calls] of Object.entries(store)) {
      const names = typeof calls === "object" ? Object.keys(calls) : [];
      wrapCalls(calls, Object.fromEntries(names.map((name) => [name, table])), (name, work) =>
        this.#stored(name, work),
      );
    }
    wrapCalls(store as { transaction(): unknown }, { transaction: "transaction" }, (name, work) =>
      this.#stored(name, work),
    );
  }

  /** Begins the counts of these routes, which countLogEntry continues. */
  watchRoutes(routes: readonly string[]): void {
    for (const route of [...routes, NO_ROUTE]) {
      this.#requests.inc({ route: this.#routes.of(route), status: ALERTED_REQUEST_STATUS }, 0);
    }
  }

  /** Counts requests by their log lines, and all other warnings and errors. */
  countLogEntry({ level, event, route, status, ms }: LogEntry): void {
    if (event === "request") {
      const name = this.#routes.of(typeof route === "string" ? route : NO_ROUTE);
      this.#requests.inc({ route: name, status: String(status) });
      this.#requestSeconds.observe({ route: name }, Number(ms) / 1000);
    } else if (level !== "info") this.#logEvents.inc({ level, event: this.#events.of(event) });
  }

  /** Requests of an edge process, as it reports them. */
  countEdgeReport({ requests, refusals, starts }: RequestReport): void {
    for (const [name, count] of valid(requests, this.#names)) this.#edge.requests.inc({ class: name }, count);
    for (const [name, count] of valid(refusals, this.#names)) this.#edge.refusals.inc({ reason: name }, count);
    for (const seconds of starts) if (seconds >= 0) this.#edge.starts.observe(seconds);
  }

  /** Outcomes of connections, as the relay reports them. */
  countRelayReport(decisions: Readonly<Record<string, number>>): void {
    for (const [decision, count] of valid(decisions, this.#names)) this.#connections.inc({ decision }, count);
  }

  countDnsDecision(decision: string): void {
    this.#queries.inc({ decision });
  }

  /** Spans that the exporter sent or gave up. */
  countSpans(outcome: SpanOutcome, count: number): void {
    this.#spans.inc({ outcome }, count);
  }

  /** All metrics in the text format of Prometheus. */
  text(): Promise<string> {
    const now = performance.now();
    if (this.#text !== undefined && now - this.#text.at <= TEXT_KEPT_MS) return this.#text.text;
    const text = this.#read();
    this.#text = { at: now, text };
    text.catch(() => {
      this.#text = undefined;
    });
    return text;
  }

  close(): void {
    clearInterval(this.#delayTimer);
  }

  async #read(): Promise<string> {
    const readings = await this.services.read();
    const { sandboxes, pool } = readings;
    for (const { gauge, value } of this.#numbers) gauge.set(value(readings));
    this.#readSandboxes(sandboxes);
    for (const { key, gauge } of this.#pool) {
      const values = new Map(pool.templates.map((template) => [template.templateId, template[key]]));
      gauge.reset();
      for (const [template, value] of largest(values, METRIC_TEMPLATES_MAX)) gauge.set({ template }, value);
    }
    this.#poolCreates.reset();
    for (const [served, count] of Object.entries({ ready: pool.hits, joined: pool.joined, missed: pool.misses })) {
      this.#poolCreates.inc({ served }, count);
    }
    const { user, system } = process.cpuUsage();
    this.#cpu.reset();
    this.#cpu.inc((user + system) / 1e6);
    this.#resident.set(process.memoryUsage.rss());
    this.#files.set(readdirSync("/proc/self/fd").length);
    return await this.#registry.metrics();
  }

  #readSandboxes(sandboxes: Readings["sandboxes"]): void {
    const [states, teams] = [new Map<string, number>(), new Map<string, number>()];
    let promisedMB = 0;
    for (const { team, state, count, memoryMB } of sandboxes) {
      states.set(state, (states.get(state) ?? 0) + count);
      if (state === "paused") continue;
      teams.set(team, (teams.get(team) ?? 0) + count);
      promisedMB += memoryMB;
    }
    this.#sandboxes.reset();
    for (const state of ["running", "paused"]) this.#sandboxes.set({ state }, 0);
    for (const [state, count] of states) this.#sandboxes.set({ state }, count);
    this.#teams.reset();
    for (const [team, count] of largest(teams, METRIC_TEAMS_MAX)) this.#teams.set({ team }, count);
    this.#promised.set(promisedMB * MIB);
  }

  #beginFailures(...operations: string[]): void {
    for (const operation of operations) {
      for (const status of ALERTED_STATUSES) this.#failures.inc({ operation, status }, 0);
    }
  }

  #fail(operation: string, failure: unknown): void {
    this.#failures.inc({ operation, status: String(Fault.from(failure).status) });
  }

  #stored(table: string, work: () => unknown): unknown {
    return timed(work, (seconds) => this.#store.observe({ table }, seconds));
  }

  #histogram<L extends string>(name: string, help: string, buckets: number[], labelNames: L[]): Histogram<L> {
    return new Histogram({ name, help, buckets, labelNames, registers: [this.#registry] });
  }

  #counter<L extends string = never>(name: string, help: string, labelNames: L[] = []): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #gauge<L extends string = never>(name: string, help: string, labelNames: L[] = []): Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: [this.#registry] });
  }
}

/** Counts that can be added; other names and numbers of a process that is not trusted are dropped. */
function valid(counts: Readonly<Record<string, number>>, names: BoundedLabel): [name: string, count: number][] {
  const entries = Object.entries(counts).filter(([, count]) => Number.isSafeInteger(count) && count > 0);
  return entries.map(([name, count]) => [names.of(name), count]);
}

type Done = (seconds: number, result: unknown, failure?: unknown) => void;

/** Calls `done` when the work is over; its result or failure passes through. */
function timed(work: () => unknown, done: Done): unknown {
  const beganAt = performance.now();
  const seconds = () => (performance.now() - beganAt) / 1000;
  const result = work();
  if (!(result instanceof Promise)) return result;
  return result.then(
    (value: unknown) => {
      done(seconds(), value);
      return value;
    },
    (failure: unknown) => {
      done(seconds(), undefined, failure);
      throw failure;
    },
  );
}
