/** The dialogue with a started CRIU, played by a program that sends what CRIU would. */
import { expect, test } from "bun:test";
import { closeSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { socketPair } from "../../../system/syscalls.ts";
import { restoreRequest } from "./criu-messages.ts";
import { CriuProcess } from "./criu-process.ts";

/** Takes the descriptor as CRIU does, as its last argument. */
const PLAYED = [process.execPath, join(import.meta.dir, "testing/played-criu.ts")];
const REQUEST = restoreRequest({ imagesFolder: "/images", logLevel: 1, cgroup: "/c" });
const start = (part: string) => CriuProcess.start([...PLAYED, part], {});
const WITHIN_MS = 60_000;

/** How many processes play CRIU for this one. */
function playing(): number {
  return readdirSync("/proc").filter((pid) => {
    const [command, status] = ["cmdline", "status"].map((name) => read(`/proc/${pid}/${name}`));
    return command?.includes(PLAYED.join("\0")) && status?.includes(`\nPPid:\t${process.pid}\n`);
  }).length;
}

/** Empty for a process that has ended since. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

test("is told to go on after each stage, and in the end says what it made", async () => {
  await using criu = await start("restores");
  const stages: [string, number][] = [];
  const note = (stage: string) => async (pid: number) => void stages.push([stage, pid]);
  const done = await criu.do(
    REQUEST,
    { "pre-restore": note("pre-restore"), "setup-namespaces": note("namespaces") },
    WITHIN_MS,
  );
  expect(done).toEqual({ success: true, pid: 4242 });
  expect(stages).toEqual([
    ["pre-restore", 0],
    ["namespaces", 4242],
  ]);
});

test("a caller does not wait until a finished CRIU has ended", async () => {
  const criu = await start("lingers");
  expect(await criu.do(REQUEST, {}, WITHIN_MS)).toEqual({ success: true, pid: 4242 });
  let hasEnded = false;
  const ended = criu.ended.then(() => {
    hasEnded = true;
  });
  await Bun.sleep(0);
  expect(hasEnded).toBe(false);
  await criu[Symbol.asyncDispose]();
  await ended;
});

test("what is thrown at a stage makes it fail, and is told", async () => {
  await using criu = await start("restores");
  const done = await criu.do(REQUEST, { "setup-namespaces": () => Promise.reject(new Error("no plug")) }, WITHIN_MS);
  expect(done).toMatchObject({ success: false, exitCode: 1, reason: { message: "no plug" } });
});

test("one that ends by itself has failed for no reason of ours", async () => {
  await using criu = await start("ends");
  expect(await criu.do(REQUEST, {}, WITHIN_MS)).toEqual({ success: false, exitCode: 3, reason: undefined });
});

test("nothing that was begun for one that is killed meanwhile goes on when it is over", async () => {
  const criu = await start("dies");
  const [begun, atStage] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const beside = Promise.withResolvers<void>();
  const work = async () => {
    criu.beside(beside.promise);
    begun.resolve();
    await atStage.promise;
  };
  expect(await criu.do(REQUEST, { "pre-restore": work }, WITHIN_MS)).toMatchObject({ success: false, exitCode: 4 });
  await begun.promise;
  let isOver = false;
  const over = criu[Symbol.asyncDispose]().then(() => {
    isOver = true;
  });
  for (const end of [atStage.resolve, () => beside.reject(new Error("in vain"))]) {
    await criu.ended;
    await Bun.sleep(0);
    expect(isOver).toBe(false);
    end();
  }
  await over;
});

test("one that nobody asked for anything ends when it is not needed", async () => {
  const criu = await start("restores");
  expect(playing()).toBe(1);
  await criu[Symbol.asyncDispose]();
  expect(playing()).toBe(0);
});

test("one that cannot be started is an error", async () => {
  await using criu = await CriuProcess.start(["/no/such/criu"], {});
  await expect(criu.do(REQUEST, {}, WITHIN_MS)).rejects.toThrow("/no/such/criu");
});

test("one that takes too long is killed, and that is told", async () => {
  await using criu = await start("restores");
  const forever = Promise.withResolvers<void>();
  const done = criu.do(REQUEST, { "pre-restore": () => forever.promise }, 500);
  await expect(done).rejects.toThrow("CRIU did not end within 500 ms");
  forever.resolve();
});

test.each([
  ["restores", true],
  ["ends", false],
])("of one that a service forked for us, which %s, nobody tells more than it says itself", async (part, success) => {
  const [own, theirs] = socketPair();
  const forked = Bun.spawn([...PLAYED, part, "swrk", "0"], { stdin: theirs });
  closeSync(theirs);
  const ends: boolean[] = [];
  await using criu = await CriuProcess.served(own, async (well) => void ends.push(well));
  const done = await criu.do(REQUEST, {});
  expect(done).toEqual(success ? { success, pid: 4242 } : { success, exitCode: 1, reason: undefined });
  await forked.exited;
  await criu.ended;
  expect(ends).toEqual([success]);
});

test("one that is hung up on has failed", async () => {
  const [own, theirs] = socketPair();
  await using criu = await CriuProcess.served(own, async () => undefined);
  setTimeout(() => criu.hangUp(), 1);
  expect(await criu.do(REQUEST, {})).toMatchObject({ success: false });
  closeSync(theirs);
});
