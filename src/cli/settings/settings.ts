/**
 * All settings: their names in the environment and the config file, their defaults, and their given values.
 * docs/configuration.md describes each of them, and a test compares the two.
 */
import { existsSync, readFileSync } from "node:fs";
import { nearest } from "../../base/nearest.ts";
import { Fault } from "../../contract/fault.ts";
import { withoutPassword } from "./postgres-url.ts";

interface Setting {
  /** Name in the config file. */
  key: string;
  /** The default as the documentation has it. */
  default: string;
}

/** Settings by environment variable. */
export const SETTINGS = {
  SANDLOT_DATA: { key: "data", default: "/var/lib/sandlot" },
  SANDLOT_STORE: { key: "store", default: "SQLite in SANDLOT_DATA" },
  SANDLOT_NODE: { key: "node", default: "the host name" },
  SANDLOT_CACHE: { key: "cache", default: "/var/cache/sandlot" },
  SANDLOT_METRICS: { key: "metrics", default: "none" },
  SANDLOT_WITH: { key: "with", default: "none" },
  SANDLOT_DEBIAN_MIRROR: { key: "debianMirror", default: "Debian's default" },
  SANDLOT_AUDIT_DAYS: { key: "auditDays", default: "90" },
  SANDLOT_STEPS_FILE: { key: "stepsFile", default: "none" },
  SANDLOT_TIME_FACTOR: { key: "timeFactor", default: "1" },
  SANDLOT_LISTEN: { key: "listen", default: "127.0.0.1:3000" },
  SANDLOT_DOMAIN: { key: "domain", default: "sandlot.localhost" },
  SANDLOT_TLS_LISTEN: { key: "tlsListen", default: "127.0.0.1:443" },
  SANDLOT_TLS_CERT: { key: "tlsCert", default: "from sandlot tls, if any" },
  SANDLOT_TLS_KEY: { key: "tlsKey", default: "from sandlot tls, if any" },
  SANDLOT_PUBLIC_URL: { key: "publicUrl", default: "the address of each request" },
  SANDLOT_PUBLIC_SANDBOX_URL: { key: "publicSandboxUrl", default: "SANDLOT_PUBLIC_URL" },
  SANDLOT_TRUSTED_PROXIES: { key: "trustedProxies", default: "none" },
  SANDLOT_OIDC_ISSUER: { key: "oidcIssuer", default: "none" },
  SANDLOT_OIDC_CLIENT_ID: { key: "oidcClientId", default: "none" },
  SANDLOT_OIDC_CLIENT_SECRET_FILE: { key: "oidcClientSecretFile", default: "none" },
  SANDLOT_OIDC_DOMAINS: { key: "oidcDomains", default: "any" },
  SANDLOT_OIDC_TEAM: { key: "oidcTeam", default: "none" },
  SANDLOT_SECRETS_KEY_FILE: { key: "secretsKeyFile", default: "secrets-key in SANDLOT_DATA" },
  SANDLOT_IDENTITY_METADATA: { key: "identityMetadata", default: "none" },
  SANDLOT_WALL: { key: "wall", default: "crun" },
  SANDLOT_RUNSC: { key: "runsc", default: "installed by setup" },
  SANDLOT_SHARED_MEMORY: { key: "sharedMemory", default: "off" },
  SANDLOT_SHARED_MEMORY_CPU: { key: "sharedMemoryCpu", default: "40" },
  SANDLOT_MEMORY_OVERCOMMIT: { key: "memoryOvercommit", default: "off" },
  SANDLOT_MEMORY_RESERVE: { key: "memoryReserve", default: "5" },
  SANDLOT_READY: { key: "ready", default: "2" },
  SANDLOT_READY_MAX: { key: "readyMax", default: "128; 0 if SANDLOT_READY is 0" },
  SANDLOT_RESOLVER: { key: "resolver", default: "from /etc/resolv.conf" },
  SANDLOT_PRIVATE_RANGES: { key: "privateRanges", default: "none" },
  SANDLOT_WEBHOOKS_INSIDE: { key: "webhooksInside", default: "refuse" },
  SANDLOT_BUILDS: { key: "builds", default: "2" },
  SANDLOT_BUILDS_WAITING: { key: "buildsWaiting", default: "20" },
  SANDLOT_BUILD_MINUTES: { key: "buildMinutes", default: "60" },
  SANDLOT_BUILD_READY_MINUTES: { key: "buildReadyMinutes", default: "10" },
  SANDLOT_BUILD_STEPS: { key: "buildSteps", default: "100" },
  SANDLOT_BUILD_LOG_MB: { key: "buildLogMB", default: "10" },
  SANDLOT_UPLOAD_MB: { key: "uploadMB", default: "1024" },
  SANDLOT_IMAGES: { key: "images", default: "none" },
  SANDLOT_REGISTRIES: { key: "registries", default: "none" },
  SANDLOT_READS_PER_SECOND: { key: "readsPerSecond", default: "1000" },
  SANDLOT_CHANGES_PER_SECOND: { key: "changesPerSecond", default: "200" },
  SANDLOT_FILES_PER_SECOND: { key: "filesPerSecond", default: "1000" },
  SANDLOT_CONNECTIONS_PER_SANDBOX: { key: "connectionsPerSandbox", default: "2500" },
  SANDLOT_CONNECTIONS_PER_TEAM: { key: "connectionsPerTeam", default: "20000" },
  SANDLOT_BANDWIDTH_MBIT: { key: "bandwidthMbit", default: "none" },
  SANDLOT_DISK_MB_PER_SECOND: { key: "diskMBPerSecond", default: "none" },
  SANDLOT_VOLUME_SIZE_MB: { key: "volumeSizeMB", default: "10240" },
  SANDLOT_VOLUME_SIZE_MAX_MB: { key: "volumeSizeMaxMB", default: "102400" },
  SANDLOT_VOLUMES_PER_TEAM: { key: "volumesPerTeam", default: "100" },
  SANDLOT_VOLUMES_PER_SANDBOX: { key: "volumesPerSandbox", default: "16" },
} as const satisfies Readonly<Record<string, Setting>>;

export type SettingKey = (typeof SETTINGS)[keyof typeof SETTINGS]["key"];

/** As a value the same as no value, for settings with this default. */
const NONE = "none";

/** Path of the config file; not itself a setting in it. */
export const CONFIG_FILE_VARIABLE = "SANDLOT_CONFIG";
export const CONFIG_FILE_DEFAULT = "/etc/sandlot/config.json";

/** Undefined: the default applies. */
type Value<Key> = (key: Key) => string | undefined;

export function settingValues(env: Record<string, string | undefined>): Value<SettingKey> {
  const file = readConfigFile(env);
  return (key) => {
    const [variable, { default: usual }] = found(key);
    // An empty variable counts as unset.
    const value = env[variable] || file[key];
    return value === NONE && usual === NONE ? undefined : value;
  };
}

/** Variables with another value than the config file. `main.ts` copies the time factor of the file to its variable. */
export function settingsBesideFile(env: Record<string, string | undefined>): string[] {
  const file: Record<string, string> = readConfigFile(env);
  const keys: Record<string, Setting> = SETTINGS;
  const given = Object.keys(env).filter((name) => name.startsWith("SANDLOT_") && env[name]);
  return given.filter((name) => file[keys[name]?.key ?? ""] !== env[name]);
}

export function defaultOf(key: SettingKey): string {
  return found(key)[1].default;
}

/** Each setting with its value, but no password, and whether it is the default. */
export function effectiveSettings(
  env: Record<string, string | undefined>,
): Record<string, { value: string; isSet: boolean }> {
  const given = settingValues(env);
  const settings = Object.entries(SETTINGS).map(([variable, { key }]) => {
    const value = given(key);
    const shown = key === "store" && value !== undefined ? withoutPassword(value) : value;
    return [variable, { value: shown ?? defaultOf(key), isSet: value !== undefined }] as const;
  });
  return Object.fromEntries(settings);
}

function found(key: SettingKey): [variable: string, Setting] {
  const entry = Object.entries(SETTINGS).find(([, setting]) => setting.key === key);
  if (entry === undefined) throw new Fault(500, `there is no setting "${key}"`);
  return entry;
}

function readConfigFile(env: Record<string, string | undefined>): Record<string, string> {
  const named = env[CONFIG_FILE_VARIABLE];
  const path = named || CONFIG_FILE_DEFAULT;
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
  const known: string[] = Object.values(SETTINGS).map(({ key }) => key);
  const values: Record<string, string> = {};
  for (const [key, value] of Object.entries(parsed)) {
    if (!known.includes(key)) {
      throw new Fault(400, `the config file ${path} has the unknown setting "${key}"; ${likeliest(key, known)}`);
    }
    if (typeof value !== "string" && typeof value !== "number") {
      throw new Fault(400, `the config file ${path}: "${key}" must be a string or a number`);
    }
    values[key] = String(value);
  }
  return values;
}

/** A hint with the nearest known name for a misspelt one. */
export function likeliest(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  return near === undefined ? "docs/configuration.md lists all settings" : `did you mean ${near}?`;
}
