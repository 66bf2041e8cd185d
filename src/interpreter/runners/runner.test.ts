import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { untilTrue } from "../../base/testing/until.ts";
import { KernelEnded, type KernelOutput } from "../kernel.ts";
import { bash } from "./bash/language.ts";
import { emitOutput } from "./outputs.ts";
import { RUNNER_FINAL_OUTPUT_MS, Runner, type RunnerMessage } from "./runner.ts";
import { run } from "./testing/cells.ts";
import { chunkPieces } from "./text.ts";

const openFiles = () => readdirSync("/proc/self/fd").length;

test("a kernel that has ended leaves no descriptor open, also when others hold its pipes", async () => {
  const start = async (code: string) => {
    const kernel = await bash().start("/tmp");
    const over = run(kernel, code).catch((error: unknown) => error);
    expect(await over).toBeInstanceOf(KernelEnded);
  };
  await start("kill -9 $$");
  const before = openFiles();
  await Promise.all([start("kill -9 $$"), start(`setsid sleep ${RUNNER_FINAL_OUTPUT_MS / 1000 + 60} & kill -9 $$`)]);
  await untilTrue(() => openFiles() <= before);
});

test("a runner that does not start reports the reason, and a missing folder is an error", async () => {
  const program = { argv: ["sh", "-c", "echo the reason >&2; exit 1"], pieces: chunkPieces };
  await expect(Runner.start(program, "/tmp")).rejects.toThrow(/did not start.*the reason/s);
  await expect(Runner.start(program, "/no/such/folder")).rejects.toMatchObject({ status: 500 });
});

test("invalid messages are dropped", () => {
  const reported: KernelOutput[] = [];
  const messages: RunnerMessage[] = [
    { kind: "stdout" },
    { kind: "stdout", text: 1 },
    { kind: "result", isMain: true, bundle: { "text/plain": "not JSON" } },
    { kind: "result", isMain: true, bundle: null },
    { kind: "result", bundle: {} },
    { kind: "error", name: "E", value: "v" },
    { kind: "count", count: 7 },
    {},
  ];
  for (const message of messages) emitOutput(message, (output) => reported.push(output));
  expect(reported).toEqual([]);
  emitOutput({ kind: "result", isMain: true, bundle: { "text/plain": '"x"' } }, (output) => reported.push(output));
  expect(reported).toHaveLength(1);
});
