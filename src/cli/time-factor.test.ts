/** The setting `timeFactor` reaches the limits of the server, of its tools and of its helpers. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serverEnv } from "./testing/server-env.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-time-factor-"));
afterAll(() => rmSync(folder, { recursive: true }));

const SOURCES = join(import.meta.dir, "..");
/** Loads limits as a command does, and says what they are in the process itself and in a tool that it runs. */
const PROGRAM = `
import { scaled } from "${SOURCES}/work/time-factor.ts";
import { GUEST_READY_MS, RESTORE_STALLED_MS } from "${SOURCES}/host/limits.ts";
import { EDGE_PROCESS_START_MS } from "${SOURCES}/edge/limits.ts";
import { KILL_WAIT_MS, DELIVERY_MS } from "${SOURCES}/control/limits.ts";
import { run } from "${SOURCES}/host/system/command.ts";
const inTool = await run([process.execPath, "-e", \`
  import { scaled } from "${SOURCES}/work/time-factor.ts";
  console.log(scaled(1000));
\`]);
console.log(JSON.stringify({
  scaled: scaled(1000), GUEST_READY_MS, RESTORE_STALLED_MS, EDGE_PROCESS_START_MS, KILL_WAIT_MS, DELIVERY_MS,
  inTool: Number(inTool),
}));
`;

async function limitsWith(env: Record<string, string>) {
  const child = Bun.spawn([process.execPath, "-e", PROGRAM], { env: serverEnv(folder, env), stderr: "inherit" });
  return JSON.parse(await new Response(child.stdout).text()) as Record<string, number>;
}

test("a factor in the environment scales internal timeouts and leaves promised ones", async () => {
  const [usual, slow] = await Promise.all([limitsWith({}), limitsWith({ SANDLOT_TIME_FACTOR: "2.5" })]);
  const { DELIVERY_MS, ...internal } = usual;
  const expected = Object.entries(internal).map(([name, ms]) => [name, ms * 2.5]);
  expect(slow).toEqual({ ...Object.fromEntries(expected), DELIVERY_MS });
});

test("a factor in the config file is in the environment before any limit is loaded", async () => {
  const file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify({ timeFactor: 3, data: folder }));
  // The command runs first, as it does for a user, and limits are loaded after it.
  const program = `
    process.exit = () => undefined;
    process.argv.splice(1, process.argv.length, "sandlot", "help");
    await import("${SOURCES}/cli/main.ts");
    const { GUEST_READY_MS } = await import("${SOURCES}/host/limits.ts");
    console.log(GUEST_READY_MS, process.env.SANDLOT_TIME_FACTOR);
  `;
  const env = { ...serverEnv(folder), SANDLOT_CONFIG: file };
  const child = Bun.spawn([process.execPath, "-e", program], { env, stderr: "inherit" });
  expect((await new Response(child.stdout).text()).trim().split("\n").at(-1)).toBe("90000 3");
});
