/** Parses `--config` into servers to start. It reports every error of a configuration before anything runs. */
import { Fault } from "../contract/fault.ts";
import { CATALOGUE, type CatalogueServer, NOT_SERVED, programOf, type Setting } from "./catalogue.ts";
import { type Repository, repositoryOf } from "./servers/repository.ts";

/** Maximum servers in one configuration. */
export const SERVERS_MAX = 64;

/** A server that is ready to be started. */
export interface ServerPlan {
  /** The name in the configuration. */
  name: string;
  argv: readonly string[];
  variables: Readonly<Record<string, string>>;
  /** Fetched and installed before the start; the server runs in it. */
  repository?: Repository;
}

const REPOSITORY_PREFIX = "github/";
/** A variable's value ends at a NUL. */
const NUL = "\0";

export function parseConfig(text: string): ServerPlan[] {
  const config = parseObject(text);
  const entries = Object.entries(config);
  if (entries.length === 0) throw new Fault(400, `--config has no server; ${servable()}`);
  if (entries.length > SERVERS_MAX) {
    throw new Fault(400, `--config names ${entries.length} servers; at most ${SERVERS_MAX} can be served at once`);
  }
  checkNames(Object.keys(config));
  return entries.map(([name, settings]) => {
    if (!isObject(settings)) {
      throw new Fault(400, `${name}: its settings are ${shown(settings)}; give an object, {} for none`);
    }
    return isRepository(name) ? repositoryPlan(name, settings) : cataloguePlan(name, settings);
  });
}

export function isRepository(name: string): boolean {
  return name.startsWith(REPOSITORY_PREFIX);
}

/**
 * Accepts servers of the catalogue and repositories. The fault explains each rejected name and lists the served ones.
 */
export function checkNames(names: readonly string[]): void {
  const unknown = names.filter((name) => !isRepository(name) && !Object.hasOwn(CATALOGUE, name));
  if (unknown.length === 0) return;
  const reasons = unknown.map((name) => {
    const reason = Object.hasOwn(NOT_SERVED, name) ? NOT_SERVED[name] : "no server of this name is in this template";
    return `${JSON.stringify(name)} cannot be served: ${reason}`;
  });
  throw new Fault(400, `${reasons.join("; ")}. ${servable()}`);
}

function servable(): string {
  return `Servers that can be served: ${Object.keys(CATALOGUE).join(", ")}, and github/OWNER/REPO with runCmd`;
}

function parseObject(text: string): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    // Do not show the text: it contains secrets.
    throw new Fault(400, "--config is not JSON; give an object with one key for each server", { cause });
  }
  if (!isObject(parsed)) throw new Fault(400, "--config is not a JSON object; give one with one key for each server");
  return parsed;
}

function cataloguePlan(name: string, settings: Record<string, unknown>): ServerPlan {
  const server = CATALOGUE[name] as CatalogueServer;
  checkSettings(name, settings, Object.keys(server.settings));
  const missing = Object.entries(server.settings).filter(
    ([key, setting]) => (settings[key] ?? "") === "" && isRequired(setting),
  );
  if (missing.length > 0) {
    throw new Fault(400, `${name}: missing settings: ${missing.map(([key]) => key).join(", ")}`);
  }
  const plan = {
    name,
    argv: ["node", programOf(name)],
    variables: { ...server.variables } as Record<string, string>,
  };
  for (const [key, setting] of Object.entries(server.settings)) {
    const value = settings[key];
    if (value === undefined || value === null) continue;
    const what = `${name}: the setting ${key}`;
    if (setting.type === "paths") plan.argv.push(...pathsOf(what, value));
    else plan.variables[setting.variable] = settingValue(what, value, setting.type);
  }
  return plan;
}

function isRequired(setting: Setting): boolean {
  return setting.type === "paths" || setting.required;
}

function repositoryPlan(name: string, settings: Record<string, unknown>): ServerPlan {
  checkSettings(name, settings, ["runCmd", "installCmd", "envs"]);
  const { runCmd, installCmd, envs = {} } = settings;
  if (typeof runCmd !== "string" || runCmd.trim() === "") {
    throw new Fault(400, `${name}: missing settings: runCmd, the command that starts its server on standard input`);
  }
  if (installCmd !== undefined && typeof installCmd !== "string") {
    throw new Fault(400, `${name}: the setting installCmd is ${shown(installCmd)}; give a command line`);
  }
  if (!isObject(envs)) throw new Fault(400, `${name}: the setting envs is ${shown(envs)}; give an object of texts`);
  const variables: Record<string, string> = {};
  for (const [key, value] of Object.entries(envs)) {
    if (!/^[^=\0]+$/.test(key))
      throw new Fault(400, `${name}: ${JSON.stringify(key)} cannot be the name of a variable`);
    variables[key] = settingValue(`${name}: the variable ${key}`, value, "text");
  }
  return { name, argv: ["bash", "-c", runCmd], variables, repository: repositoryOf(name, installCmd) };
}

function checkSettings(name: string, settings: Record<string, unknown>, known: readonly string[]): void {
  const unknown = Object.keys(settings).filter((key) => !known.includes(key));
  if (unknown.length === 0) return;
  const instead = known.length === 0 ? "it has none" : `it has ${known.join(", ")}`;
  throw new Fault(400, `${name}: unknown settings: ${unknown.join(", ")}; ${instead}`);
}

function settingValue(what: string, value: unknown, type: "text" | "number"): string {
  const isGood = type === "text" ? typeof value === "string" : Number.isFinite(Number(value)) && value !== "";
  const written = String(value);
  // The value may be a secret: show only its type.
  if (!isGood || written.includes(NUL)) throw new Fault(400, `${what} is ${shown(value)}; give a ${type}`);
  return written;
}

function pathsOf(what: string, value: unknown): string[] {
  const paths = Array.isArray(value) ? (value as unknown[]) : [];
  if (paths.length === 0) throw new Fault(400, `${what} is ${shown(value)}; give a list of absolute paths`);
  return paths.map((path) => {
    if (typeof path === "string" && path.startsWith("/") && !path.includes(NUL)) return path;
    throw new Fault(400, `${what} has ${JSON.stringify(path)}; give absolute paths`);
  });
}

function shown(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  return { string: "a text", object: "an object", undefined: "missing" }[typeof value as string] ?? typeof value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
