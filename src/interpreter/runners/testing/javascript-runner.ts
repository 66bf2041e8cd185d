/** The JavaScript runner as in templates: bundled, with its packages beside it. */
import { mkdtempSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROJECT = join(import.meta.dir, "../../../..");

let bundled: Promise<{ node: string; runner: string }> | undefined;

export function javascriptRunner(): Promise<{ node: string; runner: string }> {
  bundled ??= bundle();
  return bundled;
}

async function bundle(): Promise<{ node: string; runner: string }> {
  const folder = mkdtempSync(join(tmpdir(), "javascript-runner-"));
  process.once("exit", () => Bun.spawnSync(["rm", "-r", folder]));
  symlinkSync(join(PROJECT, "node_modules"), join(folder, "node_modules"));
  const entrypoint = join(PROJECT, "src/interpreter/runners/javascript/node/main.ts");
  await Bun.build({ entrypoints: [entrypoint], target: "node", outdir: folder, naming: "runner.mjs" });
  const node = Bun.which("node");
  if (node === null) throw new Error("Node is not installed");
  return { node, runner: join(folder, "runner.mjs") };
}
