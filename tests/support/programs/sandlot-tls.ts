/** `sandlot tls` on the data folder of a server, before it is started. */
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/host/system/command.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;

export function sandlotTls(dataFolder: string, extra: Record<string, string> = {}) {
  return attempt([process.execPath, MAIN, "tls"], { env: serverEnv(dataFolder, extra) });
}
