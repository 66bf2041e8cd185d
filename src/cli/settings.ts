/**
 * All settings: their names in the environment and the config file, their documentation, and their given values.
 * docs/configuration.md holds the same table, and a test compares the two.
 */
import { existsSync, readFileSync } from "node:fs";
import { nearest } from "../base/nearest.ts";
import { Fault } from "../contract/fault.ts";

interface Setting {
  /** Name in the config file. */
  key: string;
  /** As written in the documentation. */
  default: string;
  description: string;
}

/** By environment variable. */
export const SETTINGS = {
  SANDLOT_DATA: {
    key: "data",
    default: "/var/lib/sandlot",
    description: "Data folder: the store, the first API key, the disks of sandboxes.",
  },
  SANDLOT_CACHE: {
    key: "cache",
    default: "/var/cache/sandlot",
    description: "Cache folder: tools, guest, images. Setup can rebuild it; servers can share it.",
  },
  SANDLOT_WITH: {
    key: "with",
    default: "none",
    description: "Built-in templates to build before the server is ready, separated by commas.",
  },
  SANDLOT_LISTEN: {
    key: "listen",
    default: "127.0.0.1:3000",
    description: "Address and port of the server, for the management API and sandbox URLs.",
  },
  SANDLOT_DOMAIN: {
    key: "domain",
    default: "sandlot.localhost",
    description: "Domain for clients (E2B_DOMAIN): api.NAME is the server, PORT-ID.NAME a port of a sandbox.",
  },
  SANDLOT_TLS_LISTEN: {
    key: "tlsListen",
    default: "127.0.0.1:443",
    description: "Address and port of the TLS listener. Used if there is a certificate.",
  },
  SANDLOT_TLS_CERT: {
    key: "tlsCert",
    default: "from sandlot tls, if any",
    description: "File with the certificate chain for NAME and *.NAME (PEM), reloaded when it changes.",
  },
  SANDLOT_TLS_KEY: {
    key: "tlsKey",
    default: "from sandlot tls, if any",
    description: "File with the private key of the certificate (PEM).",
  },
  SANDLOT_PUBLIC_URL: {
    key: "publicUrl",
    default: "the address of each request",
    description: "Public URL of the management API behind a proxy; upload links begin with it.",
  },
  SANDLOT_PUBLIC_SANDBOX_URL: {
    key: "publicSandboxUrl",
    default: "SANDLOT_PUBLIC_URL",
    description: "Public URL of sandboxes behind a proxy; PORT-ID. before its host name is a port of a sandbox.",
  },
  SANDLOT_TRUSTED_PROXIES: {
    key: "trustedProxies",
    default: "none",
    description: "Addresses and ranges of proxies whose forwarding headers the server trusts.",
  },
  SANDLOT_WALL: {
    key: "wall",
    default: "crun",
    description: "Isolation runtime: crun or runsc (gVisor). A template can override it.",
  },
  SANDLOT_RUNSC: {
    key: "runsc",
    default: "installed by setup",
    description: "Path of the runsc program.",
  },
  SANDLOT_READY: {
    key: "ready",
    default: "2",
    description:
      "Minimum number of booted base sandboxes in the ready pool; 0 disables the minimum of all built-in templates. 0 to 64.",
  },
  SANDLOT_READY_MAX: {
    key: "readyMax",
    default: "128; 0 if SANDLOT_READY is 0",
    description: "Maximum number of sandboxes in the ready pool, all templates together. 0 to 1024.",
  },
  SANDLOT_RESOLVER: {
    key: "resolver",
    default: "from /etc/resolv.conf",
    description: "IPv4 address of the DNS server for sandboxes.",
  },
  SANDLOT_PRIVATE_RANGES: {
    key: "privateRanges",
    default: "none",
    description:
      "Private ranges, addresses and host names that sandboxes may reach, separated by commas; sandlot limits overrides them for a team.",
  },
  SANDLOT_DEBIAN_MIRROR: {
    key: "debianMirror",
    default: "Debian's default",
    description: "URL of the Debian mirror for setup.",
  },
  SANDLOT_WEBHOOKS_INSIDE: {
    key: "webhooksInside",
    default: "refuse",
    description: "Webhooks to this machine and private networks: allow or refuse.",
  },
  SANDLOT_BUILDS: {
    key: "builds",
    default: "2",
    description: "Maximum concurrent template builds. 1 to 64.",
  },
  SANDLOT_BUILDS_WAITING: {
    key: "buildsWaiting",
    default: "20",
    description: "Maximum queued builds per team. 1 to 1000.",
  },
  SANDLOT_BUILD_MINUTES: {
    key: "buildMinutes",
    default: "60",
    description: "Maximum duration of a build, in minutes. 1 to 1440.",
  },
  SANDLOT_BUILD_READY_MINUTES: {
    key: "buildReadyMinutes",
    default: "10",
    description: "Maximum time until a build's start command is ready, in minutes. 1 to 1440.",
  },
  SANDLOT_BUILD_STEPS: {
    key: "buildSteps",
    default: "100",
    description: "Maximum steps per build. 1 to 1000.",
  },
  SANDLOT_BUILD_LOG_MB: {
    key: "buildLogMB",
    default: "10",
    description: "Maximum stored log per build, in MiB. 1 to 100.",
  },
  SANDLOT_UPLOAD_MB: {
    key: "uploadMB",
    default: "1024",
    description: "Maximum size of an upload for a build, in MiB. 1 to 65536.",
  },
  SANDLOT_READS_PER_SECOND: {
    key: "readsPerSecond",
    default: "1000",
    description: "Maximum reading requests per team and second; bursts up to ten times as many. 1 to 1000000.",
  },
  SANDLOT_CHANGES_PER_SECOND: {
    key: "changesPerSecond",
    default: "200",
    description: "Maximum changing requests per team and second, such as creates and kills; same bursts. 1 to 1000000.",
  },
  SANDLOT_FILES_PER_SECOND: {
    key: "filesPerSecond",
    default: "1000",
    description: "Maximum requests for files of volumes per team and second; same bursts. 1 to 1000000.",
  },
  SANDLOT_CONNECTIONS_PER_SANDBOX: {
    key: "connectionsPerSandbox",
    default: "2500",
    description: "Maximum concurrent requests, streams and WebSockets per sandbox. 1 to 65336.",
  },
  SANDLOT_CONNECTIONS_PER_TEAM: {
    key: "connectionsPerTeam",
    default: "20000",
    description: "Maximum concurrent requests, streams and WebSockets per team. 1 to 65336.",
  },
  SANDLOT_BANDWIDTH_MBIT: {
    key: "bandwidthMbit",
    default: "none",
    description: "Maximum network bandwidth per sandbox and direction, in Mbit/s. 1 to 100000.",
  },
  SANDLOT_DISK_MB_PER_SECOND: {
    key: "diskMBPerSecond",
    default: "none",
    description: "Maximum disk throughput per sandbox, for reads and for writes, in MiB/s. 1 to 100000.",
  },
  SANDLOT_VOLUME_SIZE_MB: {
    key: "volumeSizeMB",
    default: "10240",
    description: "Default size of a volume, in MiB.",
  },
  SANDLOT_VOLUME_SIZE_MAX_MB: {
    key: "volumeSizeMaxMB",
    default: "102400",
    description: "Maximum size of a volume, in MiB.",
  },
  SANDLOT_VOLUMES_PER_TEAM: {
    key: "volumesPerTeam",
    default: "100",
    description: "Maximum volumes per team.",
  },
  SANDLOT_VOLUMES_PER_SANDBOX: {
    key: "volumesPerSandbox",
    default: "16",
    description: "Maximum mounted volumes per sandbox. 0 to 64.",
  },
  SANDLOT_IMAGES: {
    key: "images",
    default: "none",
    description: "Local images that builds use instead of a registry, as NAME=KIND:PLACE.",
  },
  SANDLOT_REGISTRIES: {
    key: "registries",
    default: "none",
    description: "Allowed registries in private networks, as HOST:PORT; with http:// for no TLS.",
  },
  SANDLOT_STEPS_FILE: {
    key: "stepsFile",
    default: "none",
    description: "File for the times of every internal step, read by sandlot trace.",
  },
  SANDLOT_TIME_FACTOR: {
    key: "timeFactor",
    default: "1",
    description: "Factor for every internal timeout, for slow machines. Client timeouts stay. 1 to 100.",
  },
} as const satisfies Readonly<Record<string, Setting>>;

export type SettingKey = (typeof SETTINGS)[keyof typeof SETTINGS]["key"];

/** Path of the config file; not itself a setting in it. */
export const CONFIG_FILE_VARIABLE = "SANDLOT_CONFIG";
export const CONFIG_FILE_DEFAULT = "/etc/sandlot/config.json";

/** Undefined: the default applies. */
type Value<Key> = (key: Key) => string | undefined;

export function settingValues(env: Record<string, string | undefined>): Value<SettingKey> {
  const file = readConfigFile(env);
  // An empty variable counts as unset.
  return (key) => env[found(key)[0]] || file[key];
}

export function defaultOf(key: SettingKey): string {
  return found(key)[1].default;
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
