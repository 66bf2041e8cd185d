/**
 * `npm test`. Sets up what is missing, cleans up after runs that were killed, and runs every test inside the outer network.
 * Arguments go to `bun test`. The last line counts what passed and failed.
 */
import { join } from "node:path";
import { loadConfig } from "../src/cli/config.ts";
import { demandRoot, prepare } from "../src/cli/prepare.ts";
import { installPackages } from "../src/host/setup/packages.ts";
import { makeOuterNetwork, removeStaleNetworks } from "../src/host/testing/outer-network.ts";
import { removeServersOf, removeStaleServers } from "./support/server.ts";
import { imageSteps } from "./workloads/images.ts";

const PROJECT = join(import.meta.dir, "..");
const TEST_MS = "60000";
/** What tests call on the machine itself, beyond what the server needs, with the Debian package of each. */
const TOOLS_OF_TESTS = { bash: "bash", curl: "curl", git: "git", python3: "python3" };
/**
 * Tests of the host mount things themselves, in a namespace that goes with them; and there, as in a server's own, crun must
 * not see the unified hierarchy of a hybrid cgroup layout.
 */
const OWN_MOUNTS = [
  "unshare",
  "--mount",
  "--propagation=slave",
  "sh",
  "-c",
  'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"',
  "sh",
];

demandRoot();
const args = process.argv.slice(2);
const config = loadConfig(settingsOfServer(process.env));
await prepare(config, imageSteps(config, args));
await installPackages((line) => console.error(`  ${line}`), TOOLS_OF_TESTS);
await removeStaleNetworks();
await removeStaleServers();

const network = await makeOuterNetwork();
let exitCode = 1;
try {
  const command = [...network.enter, ...OWN_MOUNTS, process.execPath, "test", "--timeout", TEST_MS, ...args];
  const child = Bun.spawn(command, {
    cwd: PROJECT,
    env: { ...process.env, SANDLOT_TEST_RUN: String(process.pid) },
    stdio: ["ignore", "inherit", "pipe"],
  });
  const report = await passOn(child.stderr);
  exitCode = await child.exited;
  const count = (word: string) => Number(new RegExp(`^\\s*(\\d+) ${word}$`, "m").exec(report)?.[1] ?? 0);
  console.log(`${count("pass")} passed, ${count("fail")} failed`);
} finally {
  await removeServersOf(String(process.pid));
  await network.remove();
}
process.exit(exitCode);

/** SANDLOT_TEST_LONG, SANDLOT_TEST_SEED and the like are for tests, not for a server. */
function settingsOfServer(env: Record<string, string | undefined>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^SANDLOT_(TEST|STORM)_/.test(name)));
}

/** Shows the report as it comes and keeps its end. */
async function passOn(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let kept = "";
  for await (const chunk of stream) {
    process.stderr.write(chunk);
    kept = (kept + decoder.decode(chunk, { stream: true })).slice(-20_000);
  }
  return kept;
}
