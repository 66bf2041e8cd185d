/** The calls of the admin socket: the server's status, its sandboxes, metrics, settings and log. */
import { version } from "../../../base/version.ts";
import type { Usage } from "../../../contract/internal/host.ts";
import { MIB } from "../../../contract/limit.ts";
import type { Control } from "../../../control/control.ts";
import type { ServerMetrics } from "../../../metrics/server-metrics.ts";
import type { SandboxOverview } from "../../../store/sandboxes.ts";
import { mergedBytes } from "../../../system/cgroup/merged-bytes.ts";
import type { Listen } from "../../settings/addresses.ts";
import { effectiveSettings } from "../../settings/settings.ts";
import type { TlsAddresses } from "../banner.ts";
import type { RecentLines } from "../recent-lines.ts";
import type { AdminRoutes } from "./admin-socket.ts";
import { readings, type ServerParts } from "./readings.ts";

/** Sandboxes in a list for the operator, the newest first. */
const ADMIN_SANDBOXES_MAX = 10_000;

/** A sandbox with its use of the machine, if it runs. */
export interface AdminSandbox extends SandboxOverview {
  usage: Usage | undefined;
  /** Memory of its processes that the machine keeps once for several; undefined: sharing is off. */
  savedBytes: number | undefined;
}

/** `GET /status` of the admin socket. */
export interface ServerStatus {
  version: string;
  pid: number;
  startedAt: string;
  dataFolder: string;
  /** The database in Postgres and the name of this server in it. Null: SQLite. */
  postgres: { database: string; node: string } | null;
  /** Address of plain HTTP, `host:port`. */
  listen: string;
  /** Domain of the TLS listener, if there is one. */
  tls: string | null;
  publicUrl: string | null;
  metrics: string | null;
  /** Number of sandboxes by state. */
  sandboxes: Record<string, number>;
  /** Sandboxes in the ready pool. */
  ready: number;
  slots: { total: number; free: number };
  memory: {
    totalBytes: number;
    availableBytes: number;
    usedBytes: number;
    promisedBytes: number;
    /** Memory saved by sharing pages. */
    savedBytes: number;
  };
  /** The filesystem with the disks of sandboxes. */
  disk: { totalBytes: number; freeBytes: number };
  /** The filesystem of the data folder. The disks may lie in a file on it, which grows. */
  dataDisk: { totalBytes: number; freeBytes: number };
}

interface AdminServices {
  control: Pick<Control, "operator">;
  metrics: Pick<ServerMetrics, "text">;
  recentLines: Pick<RecentLines, "text">;
  tls: TlsAddresses | undefined;
}

export function adminSocketRoutes(
  operated: ServerParts,
  { control, metrics, recentLines, tls }: AdminServices,
): AdminRoutes {
  // As the server started with them: the config file may change while it runs.
  const settings = effectiveSettings(process.env);
  return {
    "GET /status": () => serverStatus(operated, tls),
    "GET /metrics": () => metrics.text(),
    "GET /settings": async () => settings,
    "GET /logs": async () => recentLines.text,
    "GET /sandboxes": () => adminSandboxes(operated),
    "POST /sandboxes/{id}/pause": (id) => control.operator.pause(id),
    "DELETE /sandboxes/{id}": (id) => control.operator.kill(id),
    "POST /secrets-key": () => control.operator.rotateSecretsKey(),
    "POST /signing-key": () => control.operator.rotateSigningKey(),
  };
}

async function serverStatus(operated: ServerParts, tls: TlsAddresses | undefined): Promise<ServerStatus> {
  const { config } = operated;
  const { slots, memory, disk, dataDisk, sandboxes, pool } = await readings(operated);
  const inStates = Map.groupBy(sandboxes, ({ state }) => state);
  const inMemory = sandboxes.filter(({ state }) => state !== "paused");
  return {
    version: version(),
    pid: process.pid,
    startedAt: new Date(performance.timeOrigin).toISOString(),
    dataFolder: config.dataFolder,
    postgres: config.postgres === undefined ? null : { database: config.postgres.shown, node: config.nodeName },
    listen: formatAddress(config.listen),
    tls: tls?.domain ?? null,
    publicUrl: config.addresses.publicUrl ?? null,
    metrics: config.metrics === undefined ? null : formatAddress(config.metrics),
    sandboxes: Object.fromEntries([...inStates].map(([state, rows]) => [state, sum(rows.map(({ count }) => count))])),
    ready: sum(pool.templates.map(({ ready }) => ready)),
    slots,
    memory: {
      totalBytes: memory.totalBytes,
      availableBytes: memory.availableBytes,
      usedBytes: memory.usedBytes,
      promisedBytes: sum(inMemory.map(({ memoryMB }) => memoryMB)) * MIB,
      savedBytes: memory.savedBytes,
    },
    disk,
    dataDisk,
  };
}

function formatAddress({ hostname, port }: Listen): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

async function adminSandboxes({ data, store, host, config }: ServerParts): Promise<AdminSandbox[]> {
  const rows = await store.sandboxes.overview(ADMIN_SANDBOXES_MAX);
  const usages = await host.measure(rows.flatMap(({ id, state }) => (state === "paused" ? [] : [id])));
  return await Promise.all(
    rows.map(async (row) => {
      const usage = usages[row.id];
      const isShared = usage !== undefined && config.sharedMemory !== "off";
      const savedBytes = isShared ? await mergedBytes(`${data.cgroup}/${row.id}`) : undefined;
      return { ...row, usage, savedBytes };
    }),
  );
}
