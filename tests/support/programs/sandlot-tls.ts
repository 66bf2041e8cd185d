/** Runs `sandlot tls` on a server's data folder before the server starts. */
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { attempt } from "../../../src/system/command.ts";

const MAIN = `${import.meta.dir}/../../../src/cli/main.ts`;

/** Runs after these shell commands, in its own mount namespace. */
export function sandlotTls(dataFolder: string, extra: Record<string, string> = {}, before = "true") {
  const argv = ["unshare", "--mount", "sh", "-c", `${before} && exec "$@"`, "sh", process.execPath, MAIN, "tls"];
  return attempt(argv, { env: serverEnv(dataFolder, extra) });
}
