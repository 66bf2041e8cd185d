/**
 * Settings: environment variables override the config file, which overrides the defaults. No setting is required.
 * Unknown settings are rejected, so that a misspelt name never goes unnoticed. settings.ts has their names.
 */
import { isIPv4 } from "node:net";
import { hostname } from "node:os";
import { DEFINITIONS } from "../../../templates/definitions.ts";
import { TIME_FACTOR } from "../../base/time-factor.ts";
import { type AllowedRegistry, parseRegistries } from "../../builder/registry/allowed-registries.ts";
import { type LocalImage, parseLocalImages } from "../../builder/registry/local-images.ts";
import { Fault } from "../../contract/fault.ts";
import { MIB } from "../../contract/limit.ts";
import { parsePrivateNetworks } from "../../contract/private-networks.ts";
import { isRuntimeName, RUNTIME_NAMES, type RuntimeName } from "../../contract/runtime-name.ts";
import type { TemplateDefinition } from "../../contract/template-definition.ts";
import type { RequestRates } from "../../control/budgets/request-rates.ts";
import type { BuildLimits } from "../../control/builds/build-limits.ts";
import type { SharedMemory } from "../../control/templates/shared-memory.ts";
import type { ConnectionLimits } from "../../edge/limits.ts";
import type { SandboxQuotas } from "../../host/machine-parts.ts";
import { type Addresses, type Listen, parseAddresses, parseListen } from "./addresses.ts";
import { type OidcIssuer, parseOidc } from "./oidc-settings.ts";
import { type PostgresStore, parsePostgresUrl } from "./postgres-url.ts";
import { CONFIG_FILE_VARIABLE, defaultOf, likeliest, SETTINGS, type SettingKey, settingValues } from "./settings.ts";

export interface Config {
  dataFolder: string;
  /** Undefined: SQLite in the data folder. */
  postgres: PostgresStore | undefined;
  /** Name of this server in Postgres. */
  nodeName: string;
  cacheFolder: string;
  definitions: readonly TemplateDefinition[];
  /** Those to build before the server is ready. */
  templates: readonly TemplateDefinition[];
  listen: Listen;
  addresses: Addresses;
  oidc: OidcIssuer | undefined;
  /** Undefined: the server's own file in the data folder. */
  secretsKeyFile: string | undefined;
  /** Keys of a sandbox's metadata that its identity tokens have as claims. */
  identityMetadata: readonly string[];
  runtime: RuntimeName;
  runsc: string | undefined;
  readyPerKind: number;
  /** Maximum ready sandboxes of all kinds together. */
  readyMax: number;
  resolver: string | undefined;
  /** Ranges and names as the operator wrote them. */
  privateRanges: readonly string[];
  sharedMemory: SharedMemory;
  /** Percent of one processor. */
  sharedMemoryCpu: number;
  /** Bound of the memory sizes of all sandboxes, as a multiple of the machine's memory. */
  memoryOvercommit: number | undefined;
  /** Percent of the machine's memory that stays available. */
  memoryReserve: number;
  debianMirror: string | undefined;
  allowWebhooksInside: boolean;
  builds: BuildLimits;
  /** Per second and team. */
  requestRates: RequestRates;
  /** Days that entries of the audit log are kept. */
  auditDays: number;
  /** The host's limits of each build. */
  buildBounds: { maxMs: number; readyMaxMs: number; logMaxBytes: number };
  connections: ConnectionLimits;
  quotas: SandboxQuotas;
  volumes: { sizeMB: number; sizeMaxMB: number; perTeam: number; mountsPerSandbox: number };
  localImages: Record<string, LocalImage>;
  registries: AllowedRegistry[];
  stepsFile: string | undefined;
  /** Where Prometheus reads the metrics. */
  metrics: Listen | undefined;
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
/** CRIU and crun take each of them as an argument. */
const VOLUMES_PER_SANDBOX_MAX = 64;
const AUDIT_DAYS_MAX = 3_650;
const MEMORY_RESERVE_MAX = 50;
const IDENTITY_METADATA_MAX = 16;
const NODE_NAME_MAX_CHARS = 63;
const OVERCOMMIT = { min: 0.1, max: 100 } as const;

export function loadConfig(env: Record<string, string | undefined>): Config {
  const given = settingValues(env);
  const value = (key: SettingKey) => given(key) ?? defaultOf(key);
  const count = (key: SettingKey, min: number, max: number) => parseCount(key, value(key), min, max);
  const quota = (key: SettingKey) => (value(key) === NONE ? undefined : count(key, 1, QUOTA_MAX));
  refuseUnknown(env);
  parseTimeFactor(given("timeFactor"));
  const wall = parseRuntimeName(value("wall"));
  const readyPerKind = count("ready", 0, READY_MAX);
  const logMaxBytes = count("buildLogMB", 1, 100) * MIB;
  const volumeMaxMB = count("volumeSizeMaxMB", VOLUME_MB.min, VOLUME_MB.max);
  const [bandwidthMbit, diskMB] = [quota("bandwidthMbit"), quota("diskMBPerSecond")];
  return {
    dataFolder: absolute("data", value("data")),
    postgres: parsePostgres(given("store")),
    nodeName: parseNodeName(given("node"), given("store")),
    cacheFolder: absolute("cache", value("cache")),
    definitions: DEFINITIONS,
    templates: parseTemplates(given("with") ?? ""),
    listen: parseListen("listen", value("listen")),
    addresses: parseAddresses(given),
    oidc: parseOidc(given),
    secretsKeyFile: parsePath("secretsKeyFile", given("secretsKeyFile")),
    identityMetadata: parseMetadataKeys(given("identityMetadata") ?? ""),
    runtime: wall,
    runsc: parsePath("runsc", given("runsc")),
    readyPerKind,
    readyMax: parseCount("readyMax", given("readyMax") ?? (readyPerKind === 0 ? "0" : "128"), 0, READY_ALL_MAX),
    resolver: parseResolver(given("resolver")),
    privateRanges: parsePrivate("privateRanges", value("privateRanges")),
    sharedMemory: parseSharedMemory(value("sharedMemory"), wall),
    sharedMemoryCpu: count("sharedMemoryCpu", 1, 100),
    memoryOvercommit: parseOvercommit(value("memoryOvercommit")),
    memoryReserve: count("memoryReserve", 0, MEMORY_RESERVE_MAX),
    auditDays: count("auditDays", 1, AUDIT_DAYS_MAX),
    debianMirror: given("debianMirror"),
    allowWebhooksInside: parseChoice("webhooksInside", value("webhooksInside"), "allow", "refuse"),
    builds: {
      atOnce: count("builds", 1, 64),
      waitingPerTeam: count("buildsWaiting", 1, 1000),
      stepsMax: count("buildSteps", 1, 1000),
      logMaxBytes,
      uploadMaxBytes: count("uploadMB", 1, 65_536) * MIB,
    },
    buildBounds: {
      maxMs: count("buildMinutes", 1, 1440) * 60_000,
      readyMaxMs: count("buildReadyMinutes", 1, 1440) * 60_000,
      logMaxBytes,
    },
    requestRates: {
      reads: count("readsPerSecond", 1, RATE_MAX),
      changes: count("changesPerSecond", 1, RATE_MAX),
      files: count("filesPerSecond", 1, RATE_MAX),
    },
    connections: {
      perSandbox: count("connectionsPerSandbox", 1, REQUESTS_TO_SANDBOXES_MAX),
      perTeam: count("connectionsPerTeam", 1, REQUESTS_TO_SANDBOXES_MAX),
    },
    quotas: {
      ...(bandwidthMbit !== undefined && { bandwidthMbit }),
      ...(diskMB !== undefined && { diskBytesPerSecond: diskMB * MIB }),
    },
    volumes: {
      sizeMB: count("volumeSizeMB", VOLUME_MB.min, volumeMaxMB),
      sizeMaxMB: volumeMaxMB,
      perTeam: count("volumesPerTeam", 0, 100_000),
      mountsPerSandbox: count("volumesPerSandbox", 0, VOLUMES_PER_SANDBOX_MAX),
    },
    localImages: parseLocalImages(given("images") ?? ""),
    registries: parseRegistries(given("registries") ?? ""),
    stepsFile: parsePath("stepsFile", given("stepsFile")),
    metrics: value("metrics") === NONE ? undefined : parseListen("metrics", value("metrics")),
  };
}

/** `none`, or comma-separated entries. Fault 400 with an invalid one. */
export function parsePrivate(what: string, text: string): string[] {
  if (text === NONE) return [];
  const entries = text.split(",").map((entry) => entry.trim());
  parsePrivateNetworks(what, entries);
  return entries;
}

function parseSharedMemory(text: string, wall: RuntimeName): SharedMemory {
  if (text === "off") return text;
  requireMergeable("sharedMemory", wall);
  if (text === "all") return text;
  const teams = text.split(",").map((name) => name.trim());
  if (teams.some((name) => name === "" || name === "off" || name === "all")) {
    throw new Fault(400, `sharedMemory must be off, all, or names of teams separated by commas, not "${text}"`);
  }
  return teams;
}

/** Fault 400 when sandboxes cannot share memory, whatever `setting` says. */
export function requireMergeable(setting: string, wall: RuntimeName): void {
  if (wall === "crun") return;
  throw new Fault(
    400,
    `${setting} has no effect with SANDLOT_WALL=${wall}, whose sandboxes cannot share memory; use SANDLOT_WALL=crun, ` +
      `and ${wall} for single templates (sandlot templates wall NAME ${wall})`,
  );
}

function parseOvercommit(text: string): number | undefined {
  if (text === "off") return undefined;
  const factor = decimal(text);
  if (factor >= OVERCOMMIT.min && factor <= OVERCOMMIT.max) return factor;
  throw new Fault(
    400,
    `memoryOvercommit must be off or a number from ${OVERCOMMIT.min} to ${OVERCOMMIT.max}, not "${text}"`,
  );
}

/** NaN for a text that is no decimal number. */
function decimal(text: string): number {
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
}

function parseMetadataKeys(text: string): string[] {
  const keys = text.split(",").map((key) => key.trim());
  const named = keys.filter((key) => key !== "");
  if (named.length <= IDENTITY_METADATA_MAX) return named;
  throw new Fault(400, `identityMetadata must have at most ${IDENTITY_METADATA_MAX} keys, got ${named.length}`);
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
  const variables = new Set([...Object.keys(SETTINGS), CONFIG_FILE_VARIABLE]);
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

function parseCount(key: string, text: string, min: number, max: number): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < min || count > max) {
    throw new Fault(400, `${key} must be a whole number from ${min} to ${max}, not "${text}"`);
  }
  return count;
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

function parsePostgres(text: string | undefined): PostgresStore | undefined {
  return text === undefined ? undefined : parsePostgresUrl("store", text);
}

/** A host name that cannot be the default is shortened to what can. */
function parseNodeName(given: string | undefined, store: string | undefined): string {
  const name =
    given ??
    hostname()
      .replaceAll(/[^\w.-]/g, "-")
      .slice(0, NODE_NAME_MAX_CHARS);
  if (/^[\w.-]+$/.test(name) && name.length <= NODE_NAME_MAX_CHARS) {
    if (given === undefined || store !== undefined) return name;
    throw new Fault(400, "node names this server in Postgres, but store is not set. FIX: set store, or remove node");
  }
  throw new Fault(
    400,
    `node must be 1 to ${NODE_NAME_MAX_CHARS} letters, digits, dots, dashes or underscores, not "${name}"`,
  );
}

function parseResolver(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (!isIPv4(text)) throw new Fault(400, `resolver must be an IPv4 address, not "${text}"`);
  return text;
}

/** `main.ts` has already applied it; here an invalid value is rejected. */
function parseTimeFactor(text: string | undefined): void {
  const { min, max } = TIME_FACTOR;
  if (text === undefined || (decimal(text) >= min && decimal(text) <= max)) return;
  throw new Fault(400, `timeFactor must be a number from ${min} to ${max}, not "${text}"`);
}
