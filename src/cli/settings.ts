/**
 * The names of all settings, in the environment and in the config file, with what their documentation says:
 * docs/configuration.md holds the same table, and a test compares the two. And the text that each has been given.
 */
import { existsSync, readFileSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import { nearest } from "../work/nearest.ts";

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
    description: "Cache folder, which set-up can make again: tools, guest, images. Servers may share it.",
  },
  {
    key: "with",
    variable: "SANDLOT_WITH",
    default: "none",
    description: "Built-in templates to build before the server is ready, with commas between.",
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
    description: "Address and port of the server with TLS. Used if there is a certificate.",
  },
  {
    key: "tlsCert",
    variable: "SANDLOT_TLS_CERT",
    default: "that of sandlot tls, if any",
    description: "File with the certificate chain for NAME and *.NAME (PEM), read again when it changes.",
  },
  {
    key: "tlsKey",
    variable: "SANDLOT_TLS_KEY",
    default: "that of sandlot tls, if any",
    description: "File with the private key of the certificate (PEM).",
  },
  {
    key: "publicUrl",
    variable: "SANDLOT_PUBLIC_URL",
    default: "the address of each request",
    description: "URL of the management API for clients, behind a proxy: links to uploads begin with it.",
  },
  {
    key: "publicSandboxUrl",
    variable: "SANDLOT_PUBLIC_SANDBOX_URL",
    default: "SANDLOT_PUBLIC_URL",
    description: "URL of sandboxes for clients, behind a proxy: PORT-ID. before its host name is a port of a sandbox.",
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
    description: "Isolation of sandboxes, unless their template sets it: crun or runsc (gVisor).",
  },
  {
    key: "runsc",
    variable: "SANDLOT_RUNSC",
    default: "one of set-up's own",
    description: "Path of the program runsc.",
  },
  {
    key: "ready",
    variable: "SANDLOT_READY",
    default: "2, and more while memory is plenty",
    description:
      "How many sandboxes of base are kept booted at least, so that a create is fast; 0: of no built-in one. 0 to 64.",
  },
  {
    key: "readyMax",
    variable: "SANDLOT_READY_MAX",
    default: "128; 0 if SANDLOT_READY is 0",
    description: "How many sandboxes of all templates are kept ready at most, as they are asked for. 0 to 1024.",
  },
  {
    key: "resolver",
    variable: "SANDLOT_RESOLVER",
    default: "the machine's own",
    description: "IPv4 address of the name server for sandboxes.",
  },
  {
    key: "privateRanges",
    variable: "SANDLOT_PRIVATE_RANGES",
    default: "none",
    description:
      "Private ranges, addresses and host names that sandboxes may reach, with commas between; sandlot limits sets others for a team.",
  },
  {
    key: "debianMirror",
    variable: "SANDLOT_DEBIAN_MIRROR",
    default: "Debian's own",
    description: "URL of the Debian mirror for set-up.",
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
    key: "readsPerSecond",
    variable: "SANDLOT_READS_PER_SECOND",
    default: "1000",
    description: "How many requests that read a team may send each second; ten times as many at once. 1 to 1000000.",
  },
  {
    key: "changesPerSecond",
    variable: "SANDLOT_CHANGES_PER_SECOND",
    default: "200",
    description: "The same for requests that change something, such as creates and kills. 1 to 1000000.",
  },
  {
    key: "filesPerSecond",
    variable: "SANDLOT_FILES_PER_SECOND",
    default: "1000",
    description: "The same for requests about files of volumes. 1 to 1000000.",
  },
  {
    key: "connectionsPerSandbox",
    variable: "SANDLOT_CONNECTIONS_PER_SANDBOX",
    default: "2500",
    description: "How many requests, streams and WebSockets a sandbox is carried at once. 1 to 65336.",
  },
  {
    key: "connectionsPerTeam",
    variable: "SANDLOT_CONNECTIONS_PER_TEAM",
    default: "20000",
    description: "The same for all sandboxes of a team. 1 to 65336.",
  },
  {
    key: "bandwidthMbit",
    variable: "SANDLOT_BANDWIDTH_MBIT",
    default: "none",
    description: "How many megabits may go to a sandbox each second, and as many from it. 1 to 100000.",
  },
  {
    key: "diskMBPerSecond",
    variable: "SANDLOT_DISK_MB_PER_SECOND",
    default: "none",
    description: "How many MiB a sandbox may read from its disk each second, and as many write. 1 to 100000.",
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
  {
    key: "stepsFile",
    variable: "SANDLOT_STEPS_FILE",
    default: "none",
    description: "File to which the server writes every step of what it does, with its times; for sandlot trace.",
  },
  {
    key: "timeFactor",
    variable: "SANDLOT_TIME_FACTOR",
    default: "1",
    description: "Multiplies every internal timeout, for a slow machine. Timeouts that clients set stay. 1 to 100.",
  },
] as const satisfies readonly Setting[];

export type SettingKey = (typeof SETTINGS)[number]["key"];

/** Where the config file is; not itself a setting of it. */
export const CONFIG_FILE_VARIABLE = "SANDLOT_CONFIG";
export const CONFIG_FILE_DEFAULT = "/etc/sandlot/config.json";

/** Undefined: the default holds. */
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

/** The nearest known name, as a hint for a misspelt one. */
export function likeliest(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  return near === undefined ? "docs/configuration.md lists all settings" : `did you mean ${near}?`;
}
