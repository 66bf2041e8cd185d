/**
 * `mcp-gateway`, the command of the template of that name. It serves MCP servers, which are processes that use standard
 * input and output, to clients over streamable HTTP. The command returns when the servers can be called. This folder
 * never talks to the host: it runs inside the sandbox.
 */
import { existsSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import { checkToken } from "./access-token.ts";
import { type Report, runInBackground } from "./background.ts";
import { CATALOGUE, programOf } from "./catalogue.ts";
import { checkNames, isRepository, parseConfig } from "./config.ts";
import { launch } from "./launch.ts";
import { BACKGROUND } from "./previous-gateway.ts";
import { fetchRepository, repositoryOf } from "./servers/repository.ts";
import { TOKEN_VARIABLE } from "./servers/run-as-user.ts";

const TEMPLATE_PULL_MS = 600_000;

const USAGE = `Usage:
  mcp-gateway --config JSON   serve these servers on port 50005, with the token in ${TOKEN_VARIABLE}
  mcp-gateway pull NAME…      have these servers in a template; fails for those that cannot be served
`;

async function main([command, ...rest]: readonly string[]): Promise<void> {
  if (command === BACKGROUND) return await runInBackground(report);
  if (process.getuid?.() !== 0) throw new Fault(403, "mcp-gateway has to be run by root");
  if (command === "pull" && rest.length > 0) return await pull(rest);
  const config = command === "--config" && rest.length === 1 ? rest[0] : command?.match(/^--config=(.*)$/s)?.[1];
  if (config === undefined) throw new Fault(400, USAGE);
  // Report configuration errors before anything starts.
  parseConfig(config);
  await launch({ config, token: checkToken(process.env[TOKEN_VARIABLE]) });
  // The gateway continues in the background.
  process.exit(0);
}

/** Catalogue servers are already in the template; repositories are fetched. */
async function pull(names: readonly string[]): Promise<void> {
  checkNames(names);
  const signal = AbortSignal.timeout(TEMPLATE_PULL_MS);
  for (const name of names) {
    if (isRepository(name)) {
      await fetchRepository(repositoryOf(name), signal);
    } else if (!existsSync(programOf(name))) {
      throw new Fault(500, `${name} is not in this template: ${programOf(name)} is missing`);
    }
    const what = isRepository(name) ? "fetched" : CATALOGUE[name]?.package;
    process.stdout.write(`${name}: ${what}\n`);
  }
}

function report(message: Report): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const message = error instanceof Fault ? error.message : String((error as Error)?.stack ?? error);
  process.stderr.write(`${message.trimEnd()}\n`);
  process.exit(1);
});
