/** `sandlot status`: the running server, its sandboxes and the resources of the machine, as its admin socket says. */
import { existsSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { MIB } from "../../contract/limit.ts";
import { isRunningSystemd } from "../../system/service-notices.ts";
import { adminCall } from "../admin-client.ts";
import { requireRoot } from "../prepare.ts";
import type { ServerStatus } from "../server/admin/server-status.ts";
import type { Config } from "../settings/config.ts";
import { mainPid } from "./service.ts";
import { SERVICE, UNIT_FILE } from "./service-unit.ts";

const MINUTE_MS = 60_000;
const GIB = 1024 ** 3;
/** The exit code of `systemctl status` for a stopped service. */
const NOT_RUNNING = 3;

/** Returns 3 when no server runs. */
export async function status(config: Config): Promise<number> {
  requireRoot();
  try {
    const found = (await (await adminCall(config, "GET /status")).json()) as ServerStatus;
    console.log(statusText(found, { isService: (await servicePid()) === found.pid, nowMs: Date.now() }));
    return 0;
  } catch (thrown) {
    if (!(thrown instanceof Fault) || thrown.status !== 404) throw thrown;
    const hint = existsSync(UNIT_FILE) ? `; its log: journalctl -u ${SERVICE}` : "";
    console.log(`server     not running on ${config.dataFolder}${hint}`);
    return NOT_RUNNING;
  }
}

async function servicePid(): Promise<number | undefined> {
  return isRunningSystemd() ? await mainPid() : undefined;
}

export function statusText(found: ServerStatus, { isService, nowMs }: { isService: boolean; nowMs: number }): string {
  const { listen, tls, publicUrl, postgres, memory, disk, dataDisk, slots } = found;
  const urls = [`http://${listen}`, ...(tls === null ? [] : [`https://api.${tls}`]), publicUrl].filter(Boolean);
  const states = Object.entries(found.sandboxes).map(([state, count]) => `${count} ${state}`);
  const started = isService ? `service ${SERVICE}` : "started by hand";
  const lines = {
    server: `Sandlot ${found.version}, pid ${found.pid}, ${started}`,
    uptime: duration(nowMs - Date.parse(found.startedAt)),
    address: urls.join(", "),
    ...(found.metrics === null ? {} : { metrics: `http://${found.metrics}/metrics` }),
    sandboxes: `${states.join(", ") || "none"}; ${found.ready} ready for the next creates`,
    memory: `${size(memory.usedBytes)} used by sandboxes, ${size(memory.promisedBytes)} promised to them; ${left(memory.availableBytes, memory.totalBytes)}`,
    disk: left(disk.freeBytes, disk.totalBytes),
    slots: `${slots.free} of ${slots.total} free`,
    data: `${found.dataFolder}, ${left(dataDisk.freeBytes, dataDisk.totalBytes)}`,
    ...(postgres === null ? {} : { store: `Postgres at ${postgres.database}, as ${postgres.node}` }),
  };
  return Object.entries(lines)
    .map(([name, text]) => `${name.padEnd(10)} ${text}`)
    .join("\n");
}

function left(free: number, total: number): string {
  return `${size(free)} of ${size(total)} free`;
}

function size(bytes: number): string {
  return bytes < GIB ? `${Math.ceil(bytes / MIB)} MiB` : `${(bytes / GIB).toFixed(1)} GiB`;
}

/** The two largest units, such as `3 d 4 h`. */
function duration(ms: number): string {
  const minutes = Math.floor(ms / MINUTE_MS);
  const parts = [
    [Math.floor(minutes / 1440), "d"],
    [Math.floor(minutes / 60) % 24, "h"],
    [minutes % 60, "min"],
  ] as const;
  const from = parts.findIndex(([count]) => count > 0);
  if (from < 0) return "less than a minute";
  return parts
    .slice(from, from + 2)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}
