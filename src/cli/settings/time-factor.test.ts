/** The setting `timeFactor` reaches the limits of the server, of its tools and of its helpers. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { serverEnv } from "../testing/server-env.ts";

const folder = folderOfFile("time-factor");

/** The last line that a program says with these settings. */
async function textOf(program: string, settings: Record<string, string>): Promise<string> {
  const path = join(import.meta.dir, "../testing", program);
  const child = Bun.spawn([process.execPath, path], { env: serverEnv(folder, settings), stderr: "inherit" });
  return (await new Response(child.stdout).text()).trim().split("\n").at(-1) ?? "";
}

test("a factor in the environment scales internal timeouts and leaves promised ones", async () => {
  const [usual, slow] = await Promise.all(
    [{}, { SANDLOT_TIME_FACTOR: "2.5" }].map(async (settings) =>
      JSON.parse(await textOf("scaled-limits.ts", settings)),
    ),
  );
  const { internal, promised } = usual as Record<"internal" | "promised", Record<string, number>>;
  const scaled = Object.entries(internal).map(([name, ms]) => [name, ms * 2.5]);
  expect(scaled.length).toBeGreaterThan(3);
  expect(slow).toEqual({ internal: Object.fromEntries(scaled), promised });
});

test("a factor in the config file is in the environment before any limit is loaded", async () => {
  const file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify({ timeFactor: 3, data: folder }));
  expect(await textOf("limits-after-command.ts", { SANDLOT_CONFIG: file })).toBe("90000 3");
});
