/** Kernels keep their state through a pause and in every copy, but no two copies draw the same random numbers. */
import { expect, test } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { interpreterOfFile } from "../../support/interpreter/interpreter-of-file.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");
const sandbox = interpreterOfFile();
const DRAW = "import random, numpy\n(notes, random.random(), numpy.random.rand())";

/** A cell that stores a value, and one that prints it. */
const KEPT: Readonly<Record<string, readonly [keep: string, print: string]>> = {
  javascript: ["let notes = 'kept in JavaScript'", "console.log(notes)"],
  typescript: ["let notes: string = 'kept in TypeScript'", "console.log(notes)"],
  bash: ["notes='kept in bash'", "echo $notes"],
};

async function printed(from: Sandbox): Promise<string[]> {
  const all = Object.entries(KEPT).map(([language, [, print]]) => from.runCode(print, { language }));
  return (await Promise.all(all)).map(({ logs }) => logs.stdout.join(""));
}

async function drawn(from: Sandbox): Promise<string[]> {
  const { text = "", error } = await from.runCode(DRAW);
  if (error !== undefined) throw new Error(error.traceback);
  return text.replaceAll(/[()]/g, "").split(", ");
}

test("variables of every kernel survive pause, fork and snapshot, and copies diverge", async () => {
  await sandbox().runCode("notes = 'kept'");
  for (const [language, [keep]] of Object.entries(KEPT)) await sandbox().runCode(keep, { language });
  await sandbox().pause();
  const resumed = await Sandbox.connect(sandbox().sandboxId, server().options);
  expect((await resumed.runCode("notes")).text).toBe("kept");
  expect((await resumed.runCode("notes += ' on'")).executionCount).toBe(3);

  const { snapshotId } = await resumed.createSnapshot();
  const forks = await resumed.fork({ count: 2, timeoutMs: 300_000 });
  const copies = forks.map((fork) => {
    if (fork instanceof Error) throw fork;
    return fork;
  });
  copies.push(await Sandbox.create(snapshotId, Object.assign({ envs: { OWN: "its own" } }, server().options)));
  for (const copy of [resumed, ...copies]) {
    expect(await printed(copy)).toEqual(["kept in JavaScript\n", "kept in TypeScript\n", "kept in bash\n"]);
  }
  const all = await Promise.all([resumed, ...copies].map(drawn));
  expect(all.map(([notes]) => notes)).toEqual(Array.from({ length: 4 }, () => "'kept on'"));
  expect(new Set(all.flatMap(([, ...numbers]) => numbers)).size).toBe(8);

  const who = "import os\nos.environ['E2B_SANDBOX_ID'], os.environ.get('OWN')";
  for (const [at, copy] of copies.entries()) {
    const own = at === 2 ? "'its own'" : "None";
    expect((await copy.runCode(who)).text).toBe(`('${copy.sandboxId}', ${own})`);
  }
  await Promise.all(copies.map((copy) => copy.kill()));
});
