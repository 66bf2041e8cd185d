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
    description: "Data folder: the store, the first API key, the disks of sandboxes.",
  },
  {
    key: "cache",
    variable: "SANDLOT_CACHE",
    default: "/var/cache/sandlot",
    description: "Cache folder: tools, guest, images. Setup can rebuild it; servers can share it.",
  },
  {
    key: "with",
    variable: "SANDLOT_WITH",
    default: "none",
    description: "Built-in templates to build before the server is ready, separated by commas.",
  },
  {
    key: "listen",
    variable: "SANDLOT_LISTEN",
    default: "127.0.0.1:3000",
    description: "Address and port of the server, for the management API and sandbox URLs.",
  },
  {
    key: "domain",
    variable: "SANDLOT_DOMAIN",
    default: "sandlot.localhost",
    description: "Domain for clients (E2B_DOMAIN): api.NAME is the server, PORT-ID.NAME a port of a sandbox.",
  },
  {
    key: "tlsListen",
    variable: "SANDLOT_TLS_LISTEN",
    default: "127.0.0.1:443",
    description: "Address and port of the TLS listener. Used if there is a certificate.",
  },
  {
    key: "tlsCert",
    variable: "SANDLOT_TLS_CERT",
    default: "from sandlot tls, if any",
    description: "File with the certificate chain for NAME and *.NAME (PEM), reloaded when it changes.",
  },
  {
    key: "tlsKey",
    variable: "SANDLOT_TLS_KEY",
    default: "from sandlot tls, if any",
    description: "File with the private key of the certificate (PEM).",
  },
  {
    key: "publicUrl",
    variable: "SANDLOT_PUBLIC_URL",
    default: "the address of each request",
    description: "Public URL of the management API behind a proxy; upload links begin with it.",
  },
  {
    key: "publicSandboxUrl",
    variable: "SANDLOT_PUBLIC_SANDBOX_URL",
    default: "SANDLOT_PUBLIC_URL",
    description: "Public URL of sandboxes behind a proxy; PORT-ID. before its host name is a port of a sandbox.",
  },
  {
    key: "trustedProxies",
    variable: "SANDLOT_TRUSTED_PROXIES",
    default: "none",
    description: "Addresses and ranges of proxies whose forwarding headers the server trusts.",
  },
  {
    key: "wall",
    variable: "SANDLOT_WALL",
    default: "crun",
    description: "Isolation runtime: crun or runsc (gVisor). A template can override it.",
  },
  {
    key: "runsc",
    variable: "SANDLOT_RUNSC",
    default: "installed by setup",
    description: "Path of the runsc program.",
  },
  {
    key: "ready",
    variable: "SANDLOT_READY",
    default: "2",
    description:
      "Minimum number of booted base sandboxes in the ready pool; 0 disables the minimum of all built-in templates. 0 to 64.",
  },
  {
    key: "readyMax",
    variable: "SANDLOT_READY_MAX",
    default: "128; 0 if SANDLOT_READY is 0",
    description: "Maximum number of sandboxes in the ready pool, all templates together. 0 to 1024.",
  },
  {
    key: "resolver",
    variable: "SANDLOT_RESOLVER",
    default: "from /etc/resolv.conf",
    description: "IPv4 address of the DNS server for sandboxes.",
  },
  {
    key: "privateRanges",
    variable: "SANDLOT_PRIVATE_RANGES",
    default: "none",
    description:
      "Private ranges, addresses and host names that sandboxes may reach, separated by commas; sandlot limits overrides them for a team.",
  },
  {
    key: "debianMirror",
    variable: "SANDLOT_DEBIAN_MIRROR",
    default: "Debian's default",
    description: "URL of the Debian mirror for setup.",
  },
  {
    key: "webhooksInside",
    variable: "SANDLOT_WEBHOOKS_INSIDE",
    default: "refuse",
    description: "Webhooks to this machine and private networks: allow or refuse.",
  },
  {
    key: "builds",
    variable: "SANDLOT_BUILDS",
    default: "2",
    description: "Maximum concurrent template builds. 1 to 64.",
  },
  {
    key: "buildsWaiting",
    variable: "SANDLOT_BUILDS_WAITING",
    default: "20",
    description: "Maximum queued builds per team. 1 to 1000.",
  },
  {
    key: "buildMinutes",
    variable: "SANDLOT_BUILD_MINUTES",
    default: "60",
    description: "Maximum duration of a build, in minutes. 1 to 1440.",
  },
  {
    key: "buildReadyMinutes",
    variable: "SANDLOT_BUILD_READY_MINUTES",
    default: "10",
    description: "Maximum time until a build's start command is ready, in minutes. 1 to 1440.",
  },
  {
    key: "buildSteps",
    variable: "SANDLOT_BUILD_STEPS",
    default: "100",
    description: "Maximum steps per build. 1 to 1000.",
  },
  {
    key: "buildLogMB",
    variable: "SANDLOT_BUILD_LOG_MB",
    default: "10",
    description: "Maximum stored log per build, in MiB. 1 to 100.",
  },
  {
    key: "uploadMB",
    variable: "SANDLOT_UPLOAD_MB",
    default: "1024",
    description: "Maximum size of an upload for a build, in MiB. 1 to 65536.",
  },
  {
    key: "readsPerSecond",
    variable: "SANDLOT_READS_PER_SECOND",
    default: "1000",
    description: "Maximum reading requests per team and second; bursts up to ten times as many. 1 to 1000000.",
  },
  {
    key: "changesPerSecond",
    variable: "SANDLOT_CHANGES_PER_SECOND",
    default: "200",
    description: "Maximum changing requests per team and second, such as creates and kills; same bursts. 1 to 1000000.",
  },
  {
    key: "filesPerSecond",
    variable: "SANDLOT_FILES_PER_SECOND",
    default: "1000",
    description: "Maximum requests for files of volumes per team and second; same bursts. 1 to 1000000.",
  },
  {
    key: "connectionsPerSandbox",
    variable: "SANDLOT_CONNECTIONS_PER_SANDBOX",
    default: "2500",
    description: "Maximum concurrent requests, streams and WebSockets per sandbox. 1 to 65336.",
  },
  {
    key: "connectionsPerTeam",
    variable: "SANDLOT_CONNECTIONS_PER_TEAM",
    default: "20000",
    description: "Maximum concurrent requests, streams and WebSockets per team. 1 to 65336.",
  },
  {
    key: "bandwidthMbit",
    variable: "SANDLOT_BANDWIDTH_MBIT",
    default: "none",
    description: "Maximum network bandwidth per sandbox and direction, in Mbit/s. 1 to 100000.",
  },
  {
    key: "diskMBPerSecond",
    variable: "SANDLOT_DISK_MB_PER_SECOND",
    default: "none",
    description: "Maximum disk throughput per sandbox, for reads and for writes, in MiB/s. 1 to 100000.",
  },
  {
    key: "volumeSizeMB",
    variable: "SANDLOT_VOLUME_SIZE_MB",
    default: "10240",
    description: "Default size of a volume, in MiB.",
  },
  {
    key: "volumeSizeMaxMB",
    variable: "SANDLOT_VOLUME_SIZE_MAX_MB",
    default: "102400",
    description: "Maximum size of a volume, in MiB.",
  },
  {
    key: "volumesPerTeam",
    variable: "SANDLOT_VOLUMES_PER_TEAM",
    default: "100",
    description: "Maximum volumes per team.",
  },
  {
    key: "volumesPerSandbox",
    variable: "SANDLOT_VOLUMES_PER_SANDBOX",
    default: "16",
    description: "Maximum mounted volumes per sandbox. 0 to 64.",
  },
  {
    key: "images",
    variable: "SANDLOT_IMAGES",
    default: "none",
    description: "Local images that builds use instead of a registry, as NAME=KIND:PLACE.",
  },
  {
    key: "registries",
    variable: "SANDLOT_REGISTRIES",
    default: "none",
    description: "Allowed registries in private networks, as HOST:PORT; with http:// for no TLS.",
  },
  {
    key: "stepsFile",
    variable: "SANDLOT_STEPS_FILE",
    default: "none",
    description: "File for the times of every internal step, read by sandlot trace.",
  },
  {
    key: "timeFactor",
    variable: "SANDLOT_TIME_FACTOR",
    default: "1",
    description: "Factor for every internal timeout, for slow machines. Client timeouts stay. 1 to 100.",
  },
] as const satisfies readonly Setting[];

export type SettingKey = (typeof SETTINGS)[number]["key"];

/** Path of the config file; not itself a setting in it. */
export const CONFIG_FILE_VARIABLE = "SANDLOT_CONFIG";
export const CONFIG_FILE_DEFAULT = "/etc/sandlot/config.json";

/** Undefined: the default applies. */
export type Value<Key> = (key: Key) => string | undefined;

export function settingValues(env: Record<string, string | undefined>): Value<SettingKey> {
  const file = readConfigFile(env);
  return (key) => {
    const setting = SETTINGS.find((candidate) => candidate.key === key);
    const fromEnv = setting === undefined ? undefined : env[setting.variable];
    return fromEnv === undefined || fromEnv === "" ? file[key] : fromEnv;
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
      throw new Fault(400, `the config file ${path} has the unknown setting "${key}"; ${likeliest(key, keys())}`);
    }
    if (typeof value !== "string" && typeof value !== "number") {
      throw new Fault(400, `the config file ${path}: "${key}" must be a string or a number`);
    }
    values[key] = String(value);
  }
  return values;
}

function keys(): string[] {
  return SETTINGS.map((setting) => setting.key);
}

/** A hint with the nearest known name for a misspelt one. */
export function likeliest(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  return near === undefined ? "docs/configuration.md lists all settings" : `did you mean ${near}?`;
}
