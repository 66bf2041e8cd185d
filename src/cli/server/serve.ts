/** The server: control and host in one process, the edge in others. `up` starts it inside the mount namespace. */
import { writeFileSync } from "node:fs";
import { systemClock } from "../../base/clock.ts";
import { described, onLogLine, stderrLog } from "../../base/log.ts";
import { stepsInto } from "../../base/step-file.ts";
import { recordsAnySteps, type Step, spanOfStep } from "../../base/steps.ts";
import { version } from "../../base/version.ts";
import { FolderBlobs } from "../../blobs/folder-blobs.ts";
import { LocalImages } from "../../builder/registry/local-images.ts";
import { Fault } from "../../contract/fault.ts";
import { MIB } from "../../contract/limit.ts";
import { BASE_TEMPLATE } from "../../contract/management/base-template.ts";
import { type Control, createControl } from "../../control/control.ts";
import { ensureFirstRun } from "../../control/first-run.ts";
import { createIds } from "../../control/ids.ts";
import type { BuiltinDefinition } from "../../control/templates/builtin-definition.ts";
import { requireTeams, warnOfLimits } from "../../control/templates/shared-memory.ts";
import { traceStore } from "../../control/tracing.ts";
import { serveManagement } from "../../edge/management-server.ts";
import type { EdgeOptions } from "../../edge/process/edge-processes.ts";
import type { SpanReport } from "../../edge/process/span-reports.ts";
import { TrustedProxies } from "../../edge/routing/client-address.ts";
import type { Membership } from "../../fleet/membership.ts";
import { Machine } from "../../host/machine.ts";
import { traceHost } from "../../host/tracing.ts";
import { serveMetrics } from "../../metrics/metrics-listener.ts";
import { ServerMetrics } from "../../metrics/server-metrics.ts";
import { SpanExporter } from "../../metrics/span-exporter.ts";
import { BASE_IMAGE } from "../../setup/base-image.ts";
import { applySettings, startMerging } from "../../setup/host-changes.ts";
import { TemplateImages } from "../../setup/template-images.ts";
import type { Store } from "../../store/store.ts";
import { removeEdgeCgroups } from "../../system/cgroup/edge-memory.ts";
import { memoryLeft } from "../../system/cgroup/memory-left.ts";
import { detachTools } from "../../system/command.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { MountNamespace } from "../../system/mount/mount-namespace.ts";
import { lowerOomScore } from "../../system/oom-score.ts";
import { requireMerging } from "../../system/page-merging.ts";
import { ServiceNotices } from "../../system/service-notices.ts";
import { startTicks } from "../../system/start-ticks.ts";
import { currentGuestFolder, requireRoot } from "../prepare.ts";
import { serverFile } from "../server-file.ts";
import type { Config } from "../settings/config.ts";
import { withSecret } from "../settings/oidc-settings.ts";
import { serveAdmin } from "./admin/admin-socket.ts";
import { MachineReader } from "./admin/machine-reader.ts";
import { readings, type ServerParts } from "./admin/readings.ts";
import { adminSocketRoutes } from "./admin/server-status.ts";
import { banner, ownUrl } from "./banner.ts";
import { buildAhead, builtinDefinition } from "./builtin-definitions.ts";
import { bundleEdge, edgeLog, startEdge } from "./edge/edge-start.ts";
import { firstApiKey } from "./first-api-key.ts";
import { openLinkSecret } from "./link-secret-file.ts";
import { Listeners } from "./listeners.ts";
import { parseOpenTelemetry } from "./open-telemetry.ts";
import { RecentLines } from "./recent-lines.ts";
import { SecretsKeyFile } from "./secrets-key-file.ts";
import { openServerStore } from "./server-store.ts";

/** Recording of internal steps to a file: write interval and maximum size. */
const STEPS_FILE = { writeEveryMs: 100, maxBytes: 256 * 1024 ** 2 } as const;

const log = stderrLog;

export async function serve(config: Config): Promise<number> {
  const openTelemetry = parseOpenTelemetry(process.env, version());
  const data = await claimMachine(config);
  const spans = openTelemetry && new SpanExporter(openTelemetry.exporting, { log });
  recordSteps(config, data, spans);
  const program = bundleEdge(data);
  program.catch(() => undefined);
  const opened = await openData(config, data);
  const { store } = opened;
  const host = await openHost(config, data, opened.blobs);
  const operated = { data, store, host, config };
  const observed = observe(operated, spans);
  const control = openControl(operated, opened);
  observed.metrics.watchRoutes(control.endpoints);
  observed.metrics.watchWakes(control.directory);
  if (recordsAnySteps()) traceStore(store);
  await store.makeRoom().catch((error: unknown) => {
    log.write({ level: "error", event: "the disk has no space for the store", error: described(error) });
  });
  const traces = spans && {
    sampling: openTelemetry.sampling,
    traced: (report: SpanReport) => spans.addUntrusted(report),
  };
  const listening = await listen(operated, { control, observed, traces, program: await program });
  const { listeners } = listening;
  await control.start();
  await buildAhead(control, config.templates);
  const isTerminal = process.stdout.isTTY === true;
  const addresses = { ...config.addresses, listen: listeners.listen, tls: listeners.tls };
  console.log(banner(addresses, { secret: opened.apiKey, file: data.keyFile, isTerminal }));
  const notices = new ServiceNotices(process.env, log);
  notices.ready(`Serving at ${ownUrl(listeners.listen)}`);

  await stopSignal();
  notices.stopping();
  // New requests are rejected, management requests finish, streams to sandboxes are cut. Sandboxes keep running, and
  // the next start adopts them.
  void listeners.stop(false);
  await control.close();
  await listening.stop();
  await spans?.stop();
  observed.metrics.close();
  await host.close();
  await opened.membership?.close();
  await store.close();
  console.log("sandlot: stopped. Sandboxes keep running; the next start serves them again. `sandlot down` ends them.");
  return 0;
}

/** Makes this process the one server of its data folder, with the settings of the machine that it needs. */
async function claimMachine(config: Config): Promise<DataFolder> {
  requireRoot();
  const data = new DataFolder(config.dataFolder);
  data.lock();
  data.makeRunFolder();
  if (!new MountNamespace(data).entered)
    throw new Fault(500, "serve runs inside the mount namespace. FIX: use `sandlot up`");
  writeFileSync(serverFile(data), `${process.pid} ${startTicks(process.pid)}`);
  if (config.sharedMemory !== "off") await requireMerging("SANDLOT_SHARED_MEMORY");
  applySettings(data);
  lowerOomScore();
  detachTools();
  return data;
}

/** Internal steps go to the steps file, and those of traces to the collector. */
function recordSteps({ stepsFile }: Config, { cgroup }: DataFolder, spans: SpanExporter | undefined): void {
  if (stepsFile === undefined && spans === undefined) return;
  const keep = stepsFile === undefined ? undefined : stepsInto(stepsFile, STEPS_FILE);
  const write = (step: Step) => {
    keep?.(step);
    const span = spanOfStep(step);
    if (span !== undefined) spans?.add(span);
  };
  traceHost(write, keep && cgroup);
}

interface ServerData {
  store: Store;
  membership: Membership | undefined;
  blobs: FolderBlobs;
  definitions: readonly BuiltinDefinition[];
  /** The key made at the first start, for the banner, if it is still kept. */
  apiKey: string | undefined;
}

/** The store, with the rows of a first start, and uploaded files. */
async function openData(config: Config, data: DataFolder): Promise<ServerData> {
  const { store, membership } = await openServerStore(config, data, log);
  const base = { ...BASE_TEMPLATE, image: BASE_IMAGE };
  const seeding = { store, ids: createIds(), clock: systemClock };
  const definitions = config.definitions.map((definition) => builtinDefinition(config.cacheFolder, definition));
  const { firstApiKey: made } = await ensureFirstRun(seeding, [base], definitions);
  const apiKey = await firstApiKey(store, data.keyFile, made);
  // After the first key is kept: the next start could not show it.
  const teams = await store.people.teams();
  requireTeams(config.sharedMemory, teams);
  if (config.runtime !== "crun") warnOfLimits(teams, log);
  const blobs = await FolderBlobs.open(data.blobsFolder, systemClock);
  return { store, membership, blobs, definitions, apiKey };
}

async function openHost(config: Config, data: DataFolder, files: FolderBlobs): Promise<Machine> {
  return await Machine.open({
    data,
    cacheFolder: config.cacheFolder,
    guestFolder: currentGuestFolder(config),
    resolver: config.resolver,
    runtime: config.runtime,
    runsc: config.runsc,
    readyMax: config.readyMax,
    ownImage: BASE_IMAGE,
    files,
    builds: config.buildBounds,
    builtinImages: new TemplateImages(config, config.definitions),
    quotas: config.quotas,
    memoryReserve: config.memoryReserve > 0 ? { percent: config.memoryReserve } : undefined,
    ksmd: {
      maxPercent: config.sharedMemoryCpu,
      start: () => startMerging(data),
    },
    fetching: {
      templates: { [BASE_TEMPLATE.alias]: BASE_IMAGE },
      local: config.localImages,
      registries: config.registries,
      blobs: await FolderBlobs.open(data.registryBlobsFolder, systemClock),
    },
  });
}

interface Instruments {
  metrics: ServerMetrics;
  recentLines: RecentLines;
}

/** Counts what the store, the host and the log do. */
function observe(operated: ServerParts, spans: SpanExporter | undefined): Instruments {
  const { store, host } = operated;
  const metrics = new ServerMetrics({ version: version(), read: () => readings(operated) });
  metrics.watchHost(host);
  metrics.watchStore(store);
  const recentLines = new RecentLines();
  onLogLine((entry, line) => {
    metrics.countLogEntry(entry);
    recentLines.add(line, entry.level);
  });
  host.parts.network.onDecisions = (decisions) => metrics.countRelayReport(decisions);
  if (spans !== undefined) spans.onOutcome = (outcome, count) => metrics.countSpans(outcome, count);
  host.parts.dns.onDecision = (decision) => metrics.countDnsDecision(decision);
  return { metrics, recentLines };
}

function openControl(operated: ServerParts, { blobs, definitions }: ServerData): Control {
  const { data, store, host, config } = operated;
  const machine = new MachineReader(operated);
  const local = new LocalImages(config.localImages);
  const { memoryOvercommit: factor } = config;
  return createControl({
    store,
    host,
    blobs,
    clock: systemClock,
    ids: createIds(),
    log,
    activity: { allowWebhooksInside: config.allowWebhooksInside },
    builtinsReady: config.readyPerKind,
    definitions,
    builds: config.builds,
    requestRates: config.requestRates,
    privateRanges: config.privateRanges,
    sharedMemory: config.sharedMemory,
    machine: () => machine.read(),
    auditDays: config.auditDays,
    memoryBound:
      factor === undefined ? undefined : { factor, machineMB: Math.floor(memoryLeft(data.cgroup).totalBytes / MIB) },
    templateOf: (image) => local.templateOf(image),
    linkSecret: openLinkSecret(data),
    volumeContent: host.parts.content,
    volumeBounds: config.volumes,
    secretsKey: new SecretsKeyFile(config),
    identityMetadata: config.identityMetadata,
    oidc: withSecret(config.oidc),
    publicUrl: config.addresses.publicUrl,
  });
}

interface OpenListeners {
  listeners: Listeners;
  /** Ends every connection. */
  stop(): Promise<void>;
}

interface ListenParts extends Pick<EdgeOptions, "traces"> {
  control: Control;
  observed: Instruments;
  program: string;
}

/** Opens the server: to clients through the edge, to Prometheus, and to the operator's commands. */
async function listen(
  operated: ServerParts,
  { control, observed, traces, program }: ListenParts,
): Promise<OpenListeners> {
  const { data, host, config } = operated;
  const { metrics, recentLines } = observed;
  const { trustedProxies } = config.addresses;
  const inner = serveManagement({
    management: control.handle,
    trustedProxies: new TrustedProxies(trustedProxies),
  });
  const edge = await startEdge({
    program,
    net: host.parts.network.net,
    tag: data.tag,
    directory: control.directory,
    management: inner.socket,
    trustedProxies,
    limits: config.connections,
    log: edgeLog(log),
    counted: (report) => metrics.countEdgeReport(report),
    traces,
  });
  host.parts.network.beforeReuse = (address) => edge.closeConnectionsTo(address);
  const listeners = await Listeners.open(config, { fronts: edge, log });
  const prometheus = config.metrics === undefined ? undefined : await serveMetrics(config.metrics, metrics);
  const admin = serveAdmin(
    data.adminSocket,
    adminSocketRoutes(operated, { control, metrics, recentLines, tls: listeners.tls }),
    (request) => control.handle(request, { address: "", fromTrustedProxy: false, isRoot: true }),
  );
  const stop = async () => {
    await listeners.stop(true);
    await edge.close();
    await removeEdgeCgroups(data.tag);
    await inner.stop(true);
    await admin.stop();
    await prometheus?.stop();
  };
  return { listeners, stop };
}

/** The handlers stay attached: a second signal, as of systemd or a terminal, must not cut the shutdown short. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => resolve());
  });
}
