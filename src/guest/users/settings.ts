/**
 * Settings that the host sent to this guest, stored in a file that only root can read, so that a restarted guest has
 * them at once. If the file is damaged, the valid tokens are unknown and the guest rejects all requests until the host
 * configures it again.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { type GuestSettings, UNASSIGNED_SETTINGS } from "../../contract/runtime/guest-control.ts";
import { logNotice } from "../system/log.ts";

export interface KeptSettings extends GuestSettings {
  /** Variables that lead programs to `trustedAuthority`. */
  trustVariables?: Record<string, string>;
}

export class SettingsKeeper {
  /** Undefined if the file was damaged. */
  #current: KeptSettings | undefined;

  constructor(private readonly folder: string) {
    this.#current = readKept(folder);
  }

  /** Throws Fault 503 if the settings are lost. */
  get current(): KeptSettings {
    if (this.#current !== undefined) return this.#current;
    const message =
      "this sandbox's settings were damaged: it rejects all requests until its server configures it again";
    throw new Fault(503, message, { retryAfterSeconds: 1 });
  }

  get areLost(): boolean {
    return this.#current === undefined;
  }

  /** Empty before the sandbox is assigned, and while the settings are lost. */
  get sandboxId(): string {
    return this.#current?.sandboxId ?? "";
  }

  /** Stores the settings before using them: a response to the host means that they survive a restart. */
  replace(settings: KeptSettings): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    chmodSync(this.folder, 0o700);
    const fresh = `${this.folder}/settings.json.new`;
    writeFileSync(fresh, JSON.stringify(settings), { mode: 0o600 });
    renameSync(fresh, `${this.folder}/settings.json`);
    this.#current = settings;
  }
}

function readKept(folder: string): KeptSettings | undefined {
  try {
    return parseSettings(JSON.parse(readFileSync(`${folder}/settings.json`, "utf8")));
  } catch (thrown) {
    // On first start there is no file.
    if (systemCode(thrown) === "ENOENT") return UNASSIGNED_SETTINGS;
    // The parser's message is not logged: it may quote the file, which holds tokens.
    logNotice("the kept settings are unusable; closed until the host configures", {
      folder,
      reason: systemCode(thrown) || "they are damaged",
    });
    return undefined;
  }
}

/** The host sends all fields. A damaged file may have any value. */
export function parseSettings(json: unknown): KeptSettings {
  const given = (json ?? {}) as KeptSettings;
  const { sandboxId, templateId, envVars, accessTokens, defaultUser, defaultWorkdir } = given;
  const { trustedAuthority, trustVariables } = given;
  const isText = (value: unknown) => typeof value === "string";
  const isWhole =
    [sandboxId, templateId, defaultUser, defaultWorkdir].every(isText) &&
    isTexts(envVars) &&
    Array.isArray(accessTokens) &&
    accessTokens.every((token) => isText(token) && token !== "") &&
    (trustedAuthority === undefined || isText(trustedAuthority)) &&
    (trustVariables === undefined || isTexts(trustVariables));
  if (!isWhole) throw new Fault(400, "a field of the settings is missing or of another type");
  return {
    sandboxId,
    templateId,
    envVars,
    accessTokens,
    defaultUser,
    defaultWorkdir,
    ...(trustedAuthority === undefined ? {} : { trustedAuthority }),
    ...(trustVariables === undefined ? {} : { trustVariables }),
  };
}

function isTexts(value: unknown): boolean {
  return (
    Object.prototype.toString.call(value) === "[object Object]" &&
    Object.values(value as object).every((text) => typeof text === "string")
  );
}
