/** The dialogue with a started CRIU, with a program that sends what CRIU would. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../../base/testing/until.ts";
import { restoreRequest } from "./criu-messages.ts";
import { CriuProcess } from "./criu-process.ts";

/** Takes the descriptor as CRIU does, as its last argument. */
const FAKE_CRIU = [process.execPath, join(import.meta.dir, "testing/fake-criu.ts")];
const REQUEST = restoreRequest({ imagesFolder: "/images", logLevel: 1, cgroup: "/c" });
const start = (part: string) => CriuProcess.start([...FAKE_CRIU, part], {});
const WITHIN_MS = 60_000;

/** The number of fake CRIUs that this process has started. */
function fakesRunning(): number {
  return readdirSync("/proc").filter((pid) => {
    const [command, status] = ["cmdline", "status"].map((name) => read(`/proc/${pid}/${name}`));
    return command?.includes(FAKE_CRIU.join("\0")) && status?.includes(`\nPPid:\t${process.pid}\n`);
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

test("waits at each requested stage, and returns the result at the end", async () => {
  await using criu = await start("restores");
  criu.begin(REQUEST, WITHIN_MS);
  expect(await criu.until("pre-restore")).toBe(0);
  expect(await criu.until("setup-namespaces")).toBe(4242);
  expect(await criu.succeed()).toBe(4242);
});

test("continues at stages that were not requested", async () => {
  await using criu = await start("restores");
  criu.begin(REQUEST, WITHIN_MS);
  expect(await criu.succeed()).toBe(4242);
});

test("a caller does not wait until a finished CRIU has ended", async () => {
  const criu = await start("lingers");
  criu.begin(REQUEST, WITHIN_MS);
  expect(await criu.succeed()).toBe(4242);
  let hasEnded = false;
  const ended = criu.ended.then(() => {
    hasEnded = true;
  });
  await Bun.sleep(0);
  expect(hasEnded).toBe(false);
  await criu[Symbol.asyncDispose]();
  await ended;
});

test("a CRIU that is given up at a stage fails there and ends", async () => {
  const criu = await start("restores");
  criu.begin(REQUEST, WITHIN_MS);
  await criu.until("setup-namespaces");
  await criu[Symbol.asyncDispose]();
  expect(fakesRunning()).toBe(0);
  await expect(criu.succeed()).rejects.toMatchObject({ exitCode: 1 });
});

test.each([
  ["ends", 3],
  ["dies", 4],
])("a CRIU that %s by itself has failed", async (part, exitCode) => {
  await using criu = await start(part);
  criu.begin(REQUEST, WITHIN_MS);
  await expect(criu.until("setup-namespaces")).rejects.toMatchObject({ exitCode });
});

test("an unused CRIU ends when it is not needed", async () => {
  const criu = await start("restores");
  await until("the program has started", () => fakesRunning() === 1);
  await criu[Symbol.asyncDispose]();
  expect(fakesRunning()).toBe(0);
});

test("a CRIU that cannot be started is an error", async () => {
  await using criu = await CriuProcess.start(["/no/such/criu"], {});
  criu.begin(REQUEST, WITHIN_MS);
  await expect(criu.succeed()).rejects.toThrow("/no/such/criu");
});

test("a CRIU that takes too long is killed, and the error says so", async () => {
  await using criu = await start("restores");
  criu.begin(REQUEST, 500);
  // On a slow machine the time is over before this stage.
  await criu.until("pre-restore").catch(() => undefined);
  await criu.ended;
  await expect(criu.succeed()).rejects.toThrow("CRIU did not end within 500 ms");
});
