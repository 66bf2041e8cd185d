/**
 * Environment variables of a process in the sandbox. Of the guest's own environment only PATH is passed on, so its
 * secret and settings cannot leak. Later entries win: the user's basics, the trust of header
 * rules, sandbox-wide, per process.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import type { GuestSettings } from "../../contract/runtime/guest-control.ts";
import { PATH_DEFAULT } from "../../contract/runtime/guest-programs.ts";
import { logError } from "../system/log.ts";
import type { Account } from "./accounts.ts";
import type { KeptSettings } from "./settings.ts";

/** Variables of every sandbox. They override variables that the creator of the sandbox chose. */
function internalVariables(settings: GuestSettings): Record<string, string> {
  return { E2B_SANDBOX: "true", E2B_SANDBOX_ID: settings.sandboxId, E2B_TEMPLATE_ID: settings.templateId };
}

export function sandboxVariables(settings: KeptSettings): Record<string, string> {
  return { ...settings.trustVariables, ...settings.envVars, ...internalVariables(settings) };
}

export function processVariables(
  account: Account,
  settings: KeptSettings,
  requested: Record<string, string>,
  guestPath: string | undefined,
): Record<string, string> {
  return {
    PATH: guestPath || PATH_DEFAULT,
    HOME: account.home,
    USER: account.name,
    LOGNAME: account.name,
    ...sandboxVariables(settings),
    ...requested,
  };
}

/** Writes the internal variables to files, for programs outside the guest's process tree. */
export function publishInternalVariables(settings: GuestSettings, folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
    for (const [name, value] of Object.entries(internalVariables(settings))) {
      writeFileSync(`${folder}/.${name}`, value);
    }
  } catch (thrown) {
    // An image with a read-only /run still works; only these files are missing.
    logError("could not publish the sandbox's variables", thrown, { folder });
  }
}
