/**
 * Settings that the host sent to this guest, stored in a file that only root can read, so that a restarted guest has
 * them at once. If the file is damaged, the valid tokens are unknown and the guest rejects all requests until the host
 * configures it again.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { type GuestSettings, SETTINGS_OF_NOBODY } from "../../contract/runtime/guest-control.ts";
import { logNotice } from "../system/log.ts";
import { systemCode } from "../system/rpc-fault.ts";

export class SettingsKeeper {
  /** Undefined if the file was damaged. */
  #current: GuestSettings | undefined;

  constructor(private readonly folder: string) {
    this.#current = readKept(folder);
  }

  /** Throws Fault 503 if the settings are lost. */
  get current(): GuestSettings {
    if (this.#current !== undefined) return this.#current;
    throw new Fault(
      503,
      "this sandbox's settings were damaged: it rejects all requests until its server configures it again",
      {
        headers: { "Retry-After": "1" },
      },
    );
  }

  get areLost(): boolean {
    return this.#current === undefined;
  }

  /** Empty before the sandbox is assigned, and while the settings are lost. */
  get sandboxId(): string {
    return this.#current?.sandboxId ?? "";
  }

  /** Stores the settings before using them: a response to the host means that they survive a restart. */
  replace(settings: GuestSettings): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    chmodSync(this.folder, 0o700);
    const fresh = `${this.folder}/settings.json.new`;
    writeFileSync(fresh, JSON.stringify(settings), { mode: 0o600 });
    renameSync(fresh, `${this.folder}/settings.json`);
    this.#current = settings;
  }
}

function readKept(folder: string): GuestSettings | undefined {
  try {
    return parseSettings(JSON.parse(readFileSync(`${folder}/settings.json`, "utf8")));
  } catch (thrown) {
    // On first start there is no file.
    if (systemCode(thrown) === "ENOENT") return SETTINGS_OF_NOBODY;
    // The parser's message is not logged: it may quote the file, which holds tokens.
    logNotice("the kept settings are unusable; closed until the host configures", {
      folder,
      reason: systemCode(thrown) || "they are damaged",
    });
    return undefined;
  }
}

export function parseSettings(json: unknown): GuestSettings {
  if (typeof json !== "object" || json === null) throw new Fault(400, "settings must be a JSON object");
  const given = json as Record<string, unknown>;
  return {
    sandboxId: text(given, "sandboxId"),
    templateId: text(given, "templateId"),
    envVars: textRecord(given, "envVars"),
    accessTokens: textList(given, "accessTokens"),
    defaultUser: text(given, "defaultUser"),
    defaultWorkdir: text(given, "defaultWorkdir"),
  };
}

function text(given: Record<string, unknown>, field: string): string {
  const value = given[field];
  if (typeof value !== "string") throw new Fault(400, `settings: ${field} must be a string`);
  return value;
}

function textList(given: Record<string, unknown>, field: string): string[] {
  const value = given[field];
  const isText = (item: unknown) => typeof item === "string" && item !== "";
  if (!Array.isArray(value) || !value.every(isText)) {
    throw new Fault(400, `settings: ${field} must be a list of non-empty strings`);
  }
  return value;
}

function textRecord(given: Record<string, unknown>, field: string): Record<string, string> {
  const value = given[field];
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Fault(400, `settings: ${field} must be an object`);
  }
  if (!Object.values(value).every((item) => typeof item === "string")) {
    throw new Fault(400, `settings: every value of ${field} must be a string`);
  }
  return { ...value };
}
