/**
 * `npm run matrix`: installs the last three minor versions of each official client, runs one script of its features
 * against a server of its own with a domain and TLS, and writes the table of docs/compatibility.md. Arguments choose
 * clients by name; `newest` leaves out all but the newest version.
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../../src/base/testing/free-port.ts";
import { serverEnv } from "../../src/cli/testing/server-env.ts";
import { run } from "../../src/system/command.ts";
import { npm } from "../support/npm.ts";
import { sandlotTls } from "../support/programs/sandlot-tls.ts";
import { newDataFolder, removeServer, startServer, type TestServer } from "../support/server.ts";
import { type ClientRun, clientTable, type FeatureResult, withClientTable } from "./table.ts";
import { newestOfMinors } from "./versions.ts";

const NEWEST = "newest";
const MINORS = 3;
/** The first start may have to build the templates. */
const READY_MS = 3_600_000;
const SCRIPT_MS = 900_000;
const SCRIPTS = join(import.meta.dir, "scripts");
const MAIN = join(import.meta.dir, "../../src/cli/main.ts");
const PAGE = join(import.meta.dir, "../../docs/compatibility.md");
const CLIENTS: Readonly<Record<string, string>> = {
  e2b: "e2b.mjs",
  "@e2b/code-interpreter": "code-interpreter.mjs",
  "@e2b/desktop": "desktop.mjs",
  "@e2b/cli": "cli.mjs",
};

const given = process.argv.slice(2);
const chosen = given.filter((name) => name !== NEWEST);
const unknown = chosen.find((name) => !(name in CLIENTS));
if (unknown !== undefined) fail(`no client is called ${unknown}; there are ${Object.keys(CLIENTS).join(", ")}`);
if (process.getuid?.() !== 0) fail("the server of the matrix needs root. FIX: sudo npm run matrix");

const tlsPort = freePort();
const folder = newDataFolder("matrix-clients");
const dataFolder = newDataFolder("matrix");
console.error("starting a server with all templates");
let runs: ClientRun[] = [];
/** Older command-line clients list templates with it. */
let accessToken = "";
try {
  const made = await sandlotTls(dataFolder);
  if (made.exitCode !== 0) throw new Error(made.stderr);
  const settings = {
    SANDLOT_WITH: "code-interpreter-v1,desktop,mcp-gateway",
    SANDLOT_TLS_LISTEN: `127.0.0.1:${tlsPort}`,
  };
  const server = await startServer(dataFolder, settings, READY_MS);
  runs = await runAll(server);
  await server.stop();
} finally {
  await removeServer(dataFolder);
  await rm(folder, { recursive: true, force: true });
}

if (given.length === 0) {
  const table = clientTable(runs, new Date().toISOString().slice(0, 10));
  writeFileSync(PAGE, withClientTable(readFileSync(PAGE, "utf8"), table));
  console.error("docs/compatibility.md has the new table");
}
process.exit(runs.some(({ results }) => results.some(({ result }) => result === "fails")) ? 1 : 0);

async function runAll(server: TestServer): Promise<ClientRun[]> {
  accessToken = (await run([process.execPath, MAIN, "keys", "token"], { env: serverEnv(dataFolder) })).trim();
  const found: ClientRun[] = [];
  for (const [client, script] of Object.entries(CLIENTS)) {
    if (chosen.length > 0 && !chosen.includes(client)) continue;
    const versions = await npm(["view", client, "versions", "--json"], SCRIPTS);
    for (const version of newestOfMinors(JSON.parse(versions), given.includes(NEWEST) ? 1 : MINORS)) {
      found.push({ client, version, results: await runClient(server, client, version, script) });
    }
  }
  return found;
}

async function runClient(server: TestServer, client: string, version: string, script: string) {
  const home = join(folder, `${client.replace("/", "-")}-${version}`);
  mkdirSync(home, { recursive: true });
  console.error(`${client} ${version}`);
  writeFileSync(join(home, "package.json"), "{}");
  await npm(["install", "--no-audit", "--no-fund", "--ignore-scripts", `${client}@${version}`], home);
  for (const file of [script, "features.mjs"]) copyFileSync(join(SCRIPTS, file), join(home, file));

  const child = Bun.spawn(["node", script], {
    cwd: home,
    env: {
      PATH: process.env.PATH,
      HOME: home,
      E2B_DOMAIN: `sandlot.localhost:${tlsPort}`,
      NODE_EXTRA_CA_CERTS: `${dataFolder}-trust/ca.pem`,
      E2B_API_KEY: server.apiKey,
      E2B_ACCESS_TOKEN: accessToken,
    },
    stdio: ["ignore", "pipe", "inherit"],
    timeout: SCRIPT_MS,
  });
  const lines = (await new Response(child.stdout).text()).trim().split("\n");
  if ((await child.exited) !== 0) {
    throw new Error(`${script} of ${client} ${version} ended with ${child.exitCode ?? child.signalCode}`);
  }
  const results = lines.map((line): FeatureResult => JSON.parse(line));
  for (const { feature, result, reason } of results)
    console.error(`  ${result} ${feature}${reason ? `: ${reason}` : ""}`);
  return results;
}

function fail(message: string): never {
  console.error(`sandlot: ${message}`);
  process.exit(1);
}
