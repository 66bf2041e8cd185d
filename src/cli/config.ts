/**
 * Settings: environment variables win over the config file, which wins over the defaults. No setting is required. An
 * unknown one is refused, so that a misspelt name never passes for a setting that works. docs/configuration.md holds
 * the same table; a test compares the two.
 */
import { existsSync, readFileSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import type { BuildLimits } from "../control/builds/build-limits.ts";
import { type AllowedRegistry, parseRegistries } from "../host/registry/allowed-registries.ts";
import { type LocalImage, parseLocalImages } from "../host/registry/local-images.ts";
import { READY_MAX } from "./limits.ts";

interface Setting {
  /** Name in the config file. */
  key: string;
  variable: string;
  /** As written in the documentation. */
  default: string;
  description: string;
}

export const SETTINGS = [
  {
    key: "data",
    variable: "SANDLOT_DATA",
    default: "/var/lib/sandlot",
    description: "Folder with everything that lasts: the store, the first API key, the disks of sandboxes.",
  },
  {
    key: "cache",
    variable: "SANDLOT_CACHE",
    default: "/var/cache/sandlot",
    description: "Folder with what set-up makes and can make again: tools, guest, images. Servers may share it.",
  },
  {
    key: "listen",
    variable: "SANDLOT_LISTEN",
    default: "127.0.0.1:3000",
    description: "Address and port of the server, for the management interface and sandbox URLs alike.",
  },
  {
    key: "ready",
    variable: "SANDLOT_READY",
    default: "2",
    description: "How many sandboxes of each built-in template are kept booted, so that a create is fast. 0 to 64.",
  },
  {
    key: "resolver",
    variable: "SANDLOT_RESOLVER",
    default: "the machine's own",
    description: "IPv4 address of the name server that answers the queries of sandboxes.",
  },
  {
    key: "debianMirror",
    variable: "SANDLOT_DEBIAN_MIRROR",
    default: "Debian's own",
    description: "URL of the Debian mirror that set-up takes packages from.",
  },
  {
    key: "webhooksInside",
    variable: "SANDLOT_WEBHOOKS_INSIDE",
    default: "refuse",
    description: "Whether webhooks may lead to addresses of this machine and private networks: allow or refuse.",
  },
  {
    key: "builds",
    variable: "SANDLOT_BUILDS",
    default: "2",
    description: "How many template builds are done at once. 1 to 64.",
  },
  {
    key: "buildsWaiting",
    variable: "SANDLOT_BUILDS_WAITING",
    default: "20",
    description: "How many builds of one team may wait for their start or for a place. 1 to 1000.",
  },
  {
    key: "buildMinutes",
    variable: "SANDLOT_BUILD_MINUTES",
    default: "60",
    description: "How long a build may take. 1 to 1440.",
  },
  {
    key: "buildReadyMinutes",
    variable: "SANDLOT_BUILD_READY_MINUTES",
    default: "10",
    description: "How long the start command of a build may take until it is ready. 1 to 1440.",
  },
  {
    key: "buildSteps",
    variable: "SANDLOT_BUILD_STEPS",
    default: "100",
    description: "How many steps a build may have. 1 to 1000.",
  },
  {
    key: "buildLogMB",
    variable: "SANDLOT_BUILD_LOG_MB",
    default: "10",
    description: "How much of a build's log is kept, in MiB. 1 to 100.",
  },
  {
    key: "uploadMB",
    variable: "SANDLOT_UPLOAD_MB",
    default: "1024",
    description: "How large an upload for a build may be, in MiB. 1 to 65536.",
  },
  {
    key: "volumeSizeMB",
    variable: "SANDLOT_VOLUME_SIZE_MB",
    default: "10240",
    description: "Size of a volume whose creator does not say one.",
  },
  {
    key: "volumeSizeMaxMB",
    variable: "SANDLOT_VOLUME_SIZE_MAX_MB",
    default: "102400",
    description: "The most that a volume may be made for.",
  },
  {
    key: "volumesPerTeam",
    variable: "SANDLOT_VOLUMES_PER_TEAM",
    default: "100",
    description: "How many volumes a team may have.",
  },
  {
    key: "volumesPerSandbox",
    variable: "SANDLOT_VOLUMES_PER_SANDBOX",
    default: "16",
    description: "How many volumes a sandbox may have mounted. 0 to 64.",
  },
  {
    key: "images",
    variable: "SANDLOT_IMAGES",
    default: "none",
    description: "Images that builds take from this machine instead of a registry, as NAME=KIND:PLACE.",
  },
  {
    key: "registries",
    variable: "SANDLOT_REGISTRIES",
    default: "none",
    description:
      "Registries in private networks that images may be fetched from, as HOST:PORT. With http://: without TLS.",
  },
] as const satisfies readonly Setting[];

type VolumeKey = Extract<(typeof SETTINGS)[number]["key"], `volume${string}`>;

/** Where the config file is; not itself a setting of it. */
export const CONFIG_FILE_VARIABLE = "SANDLOT_CONFIG";
export const CONFIG_FILE_DEFAULT = "/etc/sandlot/config.json";

export interface Config {
  dataFolder: string;
  cacheFolder: string;
  listen: { hostname: string; port: number };
  readyPerKind: number;
  resolver: string | undefined;
  debianMirror: string | undefined;
  allowWebhooksInside: boolean;
  builds: BuildLimits;
  /** What the host holds each build to. */
  buildBounds: { maxMs: number; readyMaxMs: number; logMaxBytes: number };
  volumes: { sizeMB: number; sizeMaxMB: number; perTeam: number; mountsPerSandbox: number };
  localImages: Record<string, LocalImage>;
  registries: AllowedRegistry[];
}

const VOLUME_MB = { min: 32, max: 16 * 1024 * 1024 };
const VOLUMES_PER_TEAM = { min: 0, max: 100_000 };
/** CRIU and crun take each of them as an argument. */
const VOLUMES_PER_SANDBOX = { min: 0, max: 64 };

export function loadConfig(env: Record<string, string | undefined>): Config {
  const file = readConfigFile(env);
  refuseUnknown(env);
  const value = (key: (typeof SETTINGS)[number]["key"]): string | undefined => {
    const setting = SETTINGS.find((candidate) => candidate.key === key);
    const fromEnv = setting === undefined ? undefined : env[setting.variable];
    return fromEnv === undefined || fromEnv === "" ? file[key] : fromEnv;
  };
  const logMaxBytes = parseCount("buildLogMB", value("buildLogMB") ?? "10", 1, 100) * 1024 ** 2;
  return {
    dataFolder: absolute("data", value("data") ?? "/var/lib/sandlot"),
    cacheFolder: absolute("cache", value("cache") ?? "/var/cache/sandlot"),
    listen: parseListen(value("listen") ?? "127.0.0.1:3000"),
    readyPerKind: parseCount("ready", value("ready") ?? "2", 0, READY_MAX),
    resolver: parseResolver(value("resolver")),
    debianMirror: value("debianMirror"),
    allowWebhooksInside: parseChoice("webhooksInside", value("webhooksInside") ?? "refuse", "allow", "refuse"),
    builds: {
      atOnce: parseCount("builds", value("builds") ?? "2", 1, 64),
      waitingPerTeam: parseCount("buildsWaiting", value("buildsWaiting") ?? "20", 1, 1000),
      stepsMax: parseCount("buildSteps", value("buildSteps") ?? "100", 1, 1000),
      logMaxBytes,
      uploadMaxBytes: parseCount("uploadMB", value("uploadMB") ?? "1024", 1, 65_536) * 1024 ** 2,
    },
    buildBounds: {
      maxMs: parseCount("buildMinutes", value("buildMinutes") ?? "60", 1, 1440) * 60_000,
      readyMaxMs: parseCount("buildReadyMinutes", value("buildReadyMinutes") ?? "10", 1, 1440) * 60_000,
      logMaxBytes,
    },
    volumes: parseVolumes(value),
    localImages: parseLocalImages(value("images") ?? ""),
    registries: parseRegistries(value("registries") ?? ""),
  };
}

function readConfigFile(env: Record<string, string | undefined>): Record<string, string> {
  const named = env[CONFIG_FILE_VARIABLE];
  const path = named === undefined || named === "" ? CONFIG_FILE_DEFAULT : named;
  if (!existsSync(path)) {
    if (path === named) throw new Fault(400, `${CONFIG_FILE_VARIABLE} names ${path}, which does not exist`);
    return {};
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new Fault(400, `the config file ${path} is not valid JSON: ${String(cause)}`, { cause });
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
    throw new Fault(400, `the config file ${path} must hold one JSON object`);
  }
  const values: Record<string, string> = {};
  for (const [key, value] of Object.entries(parsed)) {
    if (!SETTINGS.some((setting) => setting.key === key)) {
      throw new Fault(400, `the config file ${path} has the unknown setting "${key}". Known: ${keys()}`);
    }
    if (typeof value !== "string" && typeof value !== "number") {
      throw new Fault(400, `the config file ${path}: "${key}" must be a string or a number`);
    }
    values[key] = String(value);
  }
  return values;
}

function keys(): string {
  return SETTINGS.map((setting) => setting.key).join(", ");
}

function refuseUnknown(env: Record<string, string | undefined>): void {
  const known = new Set<string>([...SETTINGS.map((setting) => setting.variable), CONFIG_FILE_VARIABLE]);
  for (const name of Object.keys(env)) {
    if (!name.startsWith("SANDLOT_") || known.has(name)) continue;
    throw new Fault(400, `the environment has the unknown setting ${name}. Known: ${[...known].join(", ")}`);
  }
}

function absolute(key: string, path: string): string {
  if (!path.startsWith("/") || path.includes("\0") || /[,:\\\s]/.test(path)) {
    // Overlay mount options are separated by these characters.
    throw new Fault(
      400,
      `${key} must be an absolute path without spaces, commas, colons or backslashes, not "${path}"`,
    );
  }
  return path.replace(/\/+$/, "");
}

export function parseListen(text: string): { hostname: string; port: number } {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  const hostname = match?.[1] ?? match?.[2];
  if (hostname === undefined || !(port >= 1 && port <= 65_535)) {
    throw new Fault(400, `listen must look like 127.0.0.1:3000 or [::1]:3000, not "${text}"`);
  }
  return { hostname, port };
}

function parseCount(key: string, text: string, least: number, most: number): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < least || count > most) {
    throw new Fault(400, `${key} must be a whole number from ${least} to ${most}, not "${text}"`);
  }
  return count;
}

function parseVolumes(value: (key: VolumeKey) => string | undefined): Config["volumes"] {
  const read = (key: VolumeKey, otherwise: string, bounds: { min: number; max: number }) =>
    parseCount(key, value(key) ?? otherwise, bounds.min, bounds.max);
  const sizeMaxMB = read("volumeSizeMaxMB", "102400", VOLUME_MB);
  return {
    sizeMB: read("volumeSizeMB", "10240", { min: VOLUME_MB.min, max: sizeMaxMB }),
    sizeMaxMB,
    perTeam: read("volumesPerTeam", "100", VOLUMES_PER_TEAM),
    mountsPerSandbox: read("volumesPerSandbox", "16", VOLUMES_PER_SANDBOX),
  };
}

/** True for the first of the two words. */
function parseChoice(key: string, text: string, yes: string, no: string): boolean {
  if (text !== yes && text !== no) throw new Fault(400, `${key} must be ${yes} or ${no}, not "${text}"`);
  return text === yes;
}

function parseResolver(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const parts = text.split(".");
  const valid = parts.length === 4 && parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) <= 255);
  if (!valid) throw new Fault(400, `resolver must be an IPv4 address, not "${text}"`);
  return text;
}
