/** A server is killed during a build: the next server finds and removes the unfinished work, and builds again. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { LONG } from "../../../src/base/testing/long.ts";
import type { BuildRequest } from "../../../src/contract/internal/host.ts";
import { build, requestOf, requireReady, run } from "../../support/building.ts";
import { CACHE } from "../../support/cache.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { MachineOfFile } from "../../support/machine-of-file.ts";

const here = new MachineOfFile("killed-build");
const PROGRAM = join(import.meta.dir, "../../support/programs/build-program.ts");

const namesIn = (folder: string) => readdirSync(join(here.dataFolder, "disks", folder));
const unfinished = () =>
  ["layers", "images", "checkpoints", "results"]
    .flatMap(namesIn)
    .filter((name) => !/^[a-z0-9][a-z0-9-]*(\.json)?$/.test(name));

/** Kills the server so long after it has said this. */
async function killed(request: BuildRequest, line: string, afterMs: number): Promise<string> {
  const child = Bun.spawn([process.execPath, PROGRAM, here.dataFolder, CACHE, JSON.stringify(request)], {
    stdout: "pipe",
    stderr: "inherit",
  });
  let output = "";
  const decoder = new TextDecoder();
  for await (const chunk of child.stdout) {
    output += decoder.decode(chunk, { stream: true });
    if (output.includes(line)) break;
  }
  await Bun.sleep(afterMs);
  child.kill("SIGKILL");
  await child.exited;
  return output;
}

/** The phases of a build of 20 MB: the step itself, its layer, the image, the start, its checkpoint, the last check. */
const PHASES: [string, number][] = [
  ["[1/2]", 50],
  ["written", 20],
  ["[2/2]", 60],
  ["Starting", 100],
  ["Ready", 20],
  ["Ready", 150],
];

test.each(LONG ? PHASES : PHASES.filter((_, nth) => nth % 2 === 1))("after %j and %d ms", async (line, afterMs) => {
  const word = crypto.randomUUID();
  // The log shows a line before it runs; this word appears only in the line's output.
  const steps = [run(`echo ${word}; head -c 20M /dev/urandom > a; echo writ""ten`), run("cp a b")];
  const request = requestOf(steps, { start: { command: "sleep 1000", ready: "true" } });
  await here.machine.close();
  try {
    await killed(request, line, afterMs);
  } finally {
    await here.open();
  }
  const left = await here.machine.adopt({ sandboxes: [], checkpoints: [] });
  expect(left).toEqual({ sandboxes: [], checkpoints: [] });
  await here.machine.collectImages([]);
  expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  expect(unfinished()).toEqual([]);
  expect(here.machine.parts.images.list()).toEqual([]);
});

test("the next build reuses finished layers and completes", async () => {
  const steps = [run("echo kept > a"), run("cp a b; sleep 60")];
  await here.machine.close();
  await killed(requestOf(steps), "[2/2]", 0).finally(() => here.open());
  await here.machine.adopt({ sandboxes: [], checkpoints: [] });
  const { outcome, entries } = await build(here.machine, requestOf([run("echo kept > a"), run("cat a")]));
  requireReady(outcome);
  expect(entries.map(({ message }) => message)).toContain("[1/2] CACHED RUN echo kept > a");
});
