/** What `sandlot install` requires of its call, before it changes anything. */
import { Fault } from "../../contract/fault.ts";
import { OTEL_VARIABLES } from "../server/open-telemetry.ts";
import { CONFIG_FILE_DEFAULT, settingsBesideFile } from "../settings/settings.ts";
import { SERVICE } from "./service-unit.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The service does not get the environment of a shell, and the data of another server must not be removed with it. */
export function requireSettingsInFile(env: Environment): void {
  const given = settingsBesideFile(env);
  if (given.length === 0) return;
  throw new Fault(
    400,
    `the service has its settings in ${CONFIG_FILE_DEFAULT} only, not in the environment (${given.join(", ")}). ` +
      "FIX: write them into that file, and unset the variables",
  );
}

/** The export of traces has no settings in the config file. */
export function requireNoTracing(env: Environment): void {
  const read = new Set(OTEL_VARIABLES.flatMap((name) => [name, name.replace("_OTLP_", "_OTLP_TRACES_")]));
  const given = [...read].filter((name) => env[name]);
  if (given.length === 0) return;
  throw new Fault(
    400,
    `the service does not get the environment of this shell (${given.join(", ")}). FIX: unset the variables, and add ` +
      `them with \`systemctl edit ${SERVICE}\` as Environment= lines below [Service]`,
  );
}

/** npm removes the folders of `npx` at any time. */
export function requireLastingFolder(project: string): void {
  if (!project.includes("/_npx/")) return;
  throw new Fault(400, `${project} is a temporary folder of npx. FIX: npm install -g sandlot && sandlot install`);
}
