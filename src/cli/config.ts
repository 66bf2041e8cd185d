/**
 * Settings: environment variables override the config file, which overrides the defaults. No setting is required.
 * Unknown settings are refused, so that a misspelt name never goes unnoticed. settings.ts has their names.
 */
import { DEFINITIONS } from "../../templates/definitions.ts";
import { TIME_FACTOR } from "../base/time-factor.ts";
import { type AllowedRegistry, parseRegistries } from "../builder/registry/allowed-registries.ts";
import { type LocalImage, parseLocalImages } from "../builder/registry/local-images.ts";
import { Fault } from "../contract/fault.ts";
import { parsePrivateNetworks } from "../contract/private-networks.ts";
import { isRuntimeName, RUNTIME_NAMES, type RuntimeName } from "../contract/runtime-name.ts";
import type { TemplateDefinition } from "../contract/template-definition.ts";
import { REQUEST_RATES_DEFAULT, type RequestRates } from "../control/access/request-rates.ts";
import type { BuildLimits } from "../control/builds/build-limits.ts";
import { type ConnectionLimits, EDGE_CONNECTIONS_DEFAULT } from "../edge/limits.ts";
import type { SandboxQuotas } from "../host/machine-parts.ts";
import { type Addresses, type Listen, parseAddresses, parseListen } from "./addresses.ts";
import { CONFIG_FILE_VARIABLE, likeliest, SETTINGS, type SettingKey, settingValues, type Value } from "./settings.ts";

type VolumeKey = Extract<SettingKey, `volume${string}`>;

export interface Config {
  dataFolder: string;
  cacheFolder: string;
  /** All built-in templates. */
  definitions: readonly TemplateDefinition[];
  /** Those to build before the server is ready. */
  templates: readonly TemplateDefinition[];
  listen: Listen;
  addresses: Addresses;
  wall: RuntimeName;
  runsc: string | undefined;
  readyPerKind: number;
  /** For all kinds together. */
  readyMax: number;
  resolver: string | undefined;
  /** As the operator wrote them. */
  privateRanges: readonly string[];
  debianMirror: string | undefined;
  allowWebhooksInside: boolean;
  builds: BuildLimits;
  /** Per second and team. */
  requestRates: RequestRates;
  /** The host's limits of each build. */
  buildBounds: { maxMs: number; readyMaxMs: number; logMaxBytes: number };
  connections: ConnectionLimits;
  quotas: SandboxQuotas;
  volumes: { sizeMB: number; sizeMaxMB: number; perTeam: number; mountsPerSandbox: number };
  localImages: Record<string, LocalImage>;
  registries: AllowedRegistry[];
  /** File to which steps are written. */
  stepsFile: string | undefined;
}

/** Ready pool: maximum of the minimum per template, and of all templates together. */
export const READY_MAX = 64;
const READY_ALL_MAX = 1024;
/** Concurrent requests and streams to all sandboxes. Bun's maximum. */
export const REQUESTS_TO_SANDBOXES_MAX = 65_336;
const RATE_MAX = 1_000_000;
const QUOTA_MAX = 100_000;
const NONE = "none";
const VOLUME_MB = { min: 32, max: 16 * 1024 * 1024 };
const VOLUMES_PER_TEAM = { min: 0, max: 100_000 };
/** CRIU and crun take each of them as an argument. */
const VOLUMES_PER_SANDBOX = { min: 0, max: 64 };

export function loadConfig(env: Record<string, string | undefined>): Config {
  const value = settingValues(env);
  refuseUnknown(env);
  parseTimeFactor(value("timeFactor"));
  const readyPerKind = parseCount("ready", value("ready") ?? "2", 0, READY_MAX);
  const logMaxBytes = parseCount("buildLogMB", value("buildLogMB") ?? "10", 1, 100) * 1024 ** 2;
  return {
    dataFolder: absolute("data", value("data") ?? "/var/lib/sandlot"),
    cacheFolder: absolute("cache", value("cache") ?? "/var/cache/sandlot"),
    definitions: DEFINITIONS,
    templates: parseTemplates(value("with") ?? ""),
    listen: parseListen("listen", value("listen") ?? "127.0.0.1:3000"),
    addresses: parseAddresses(value),
    wall: parseRuntimeName(value("wall") ?? "crun"),
    runsc: parsePath("runsc", value("runsc")),
    readyPerKind,
    readyMax: parseCount("readyMax", value("readyMax") ?? (readyPerKind === 0 ? "0" : "128"), 0, READY_ALL_MAX),
    resolver: parseResolver(value("resolver")),
    privateRanges: parsePrivate("privateRanges", value("privateRanges") ?? NONE),
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
    requestRates: {
      reads: parseRate("readsPerSecond", value, REQUEST_RATES_DEFAULT.reads),
      changes: parseRate("changesPerSecond", value, REQUEST_RATES_DEFAULT.changes),
      files: parseRate("filesPerSecond", value, REQUEST_RATES_DEFAULT.files),
    },
    connections: {
      perSandbox: parseConnections("connectionsPerSandbox", value, EDGE_CONNECTIONS_DEFAULT.perSandbox),
      perTeam: parseConnections("connectionsPerTeam", value, EDGE_CONNECTIONS_DEFAULT.perTeam),
    },
    quotas: parseQuotas(value),
    volumes: parseVolumes(value),
    localImages: parseLocalImages(value("images") ?? ""),
    registries: parseRegistries(value("registries") ?? ""),
    stepsFile: parsePath("stepsFile", value("stepsFile")),
  };
}

/** `none`, or comma-separated entries. Fault 400 with an invalid one. */
export function parsePrivate(what: string, text: string): string[] {
  if (text === NONE) return [];
  const entries = text.split(",").map((entry) => entry.trim());
  parsePrivateNetworks(what, entries);
  return entries;
}

function parseTemplates(text: string): TemplateDefinition[] {
  const names = text.split(",").map((name) => name.trim());
  return names.filter((name) => name !== "").map(definitionOf);
}

/** Fault 400 with the known names when there is no such template. */
export function definitionOf(name: string): TemplateDefinition {
  const found = DEFINITIONS.find((definition) => definition.name === name);
  if (found !== undefined) return found;
  const known = DEFINITIONS.map((definition) => definition.name).join(", ");
  throw new Fault(400, `no template ${JSON.stringify(name)} comes with Sandlot. Those that do: ${known}`);
}

function refuseUnknown(env: Record<string, string | undefined>): void {
  const variables = new Set<string>([...SETTINGS.map((setting) => setting.variable), CONFIG_FILE_VARIABLE]);
  for (const name of Object.keys(env)) {
    if (!name.startsWith("SANDLOT_") || variables.has(name)) continue;
    throw new Fault(400, `the environment has the unknown setting ${name}; ${likeliest(name, [...variables])}`);
  }
}

function absolute(key: string, path: string): string {
  if (!path.startsWith("/") || path.includes("\0") || /[,:\\\s]/.test(path)) {
    // These characters separate overlay mount options.
    throw new Fault(
      400,
      `${key} must be an absolute path without spaces, commas, colons or backslashes, not "${path}"`,
    );
  }
  return path.replace(/\/+$/, "");
}

function parseCount(key: string, text: string, least: number, most: number): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < least || count > most) {
    throw new Fault(400, `${key} must be a whole number from ${least} to ${most}, not "${text}"`);
  }
  return count;
}

function parseVolumes(value: Value<VolumeKey>): Config["volumes"] {
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

function parseRate(key: SettingKey, value: Value<SettingKey>, otherwise: number): number {
  return parseCount(key, value(key) ?? String(otherwise), 1, RATE_MAX);
}

function parseConnections(key: SettingKey, value: Value<SettingKey>, otherwise: number): number {
  return parseCount(key, value(key) ?? String(otherwise), 1, REQUESTS_TO_SANDBOXES_MAX);
}

function parseQuotas(value: Value<SettingKey>): SandboxQuotas {
  const [mbit, mebibytes] = [value("bandwidthMbit") ?? NONE, value("diskMBPerSecond") ?? NONE];
  return {
    ...(mbit !== NONE && { bandwidthMbit: parseCount("bandwidthMbit", mbit, 1, QUOTA_MAX) }),
    ...(mebibytes !== NONE && {
      diskBytesPerSecond: parseCount("diskMBPerSecond", mebibytes, 1, QUOTA_MAX) * 1024 ** 2,
    }),
  };
}

/** True for the first of the two words. */
function parseChoice(key: string, text: string, yes: string, no: string): boolean {
  if (text !== yes && text !== no) throw new Fault(400, `${key} must be ${yes} or ${no}, not "${text}"`);
  return text === yes;
}

function parseRuntimeName(text: string): RuntimeName {
  if (!isRuntimeName(text)) throw new Fault(400, `wall must be ${RUNTIME_NAMES.join(" or ")}, not "${text}"`);
  return text;
}

function parsePath(key: string, path: string | undefined): string | undefined {
  return path === undefined ? undefined : absolute(key, path);
}

function parseResolver(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const parts = text.split(".");
  const valid = parts.length === 4 && parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) <= 255);
  if (!valid) throw new Fault(400, `resolver must be an IPv4 address, not "${text}"`);
  return text;
}

/** `main.ts` has already applied it; here an invalid value is refused. */
function parseTimeFactor(text: string | undefined): void {
  const { min, max } = TIME_FACTOR;
  if (text === undefined || (/^\d+(\.\d+)?$/.test(text) && Number(text) >= min && Number(text) <= max)) return;
  throw new Fault(400, `timeFactor must be a number from ${min} to ${max}, not "${text}"`);
}
