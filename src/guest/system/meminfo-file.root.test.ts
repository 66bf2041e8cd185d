/**
 * The memory figures that a sandbox shows: consistent with each other, and written in place before a reader can look.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { type MemoryUse, meminfoText } from "../../contract/runtime/meminfo.ts";
import { ProcessCalls, shell } from "../testing/process-calls.ts";
import { RunningGuest } from "../testing/running-guest.ts";
import { MEMINFO_EVERY_MS, MeminfoFile } from "./meminfo-file.ts";

const MIB = 1024 * 1024;
const folder = folderOfFile("memory");
const path = `${folder}/meminfo`;

const use = (total: number, used = 0, cache = 0, shared = 0): MemoryUse => ({
  total: total * MIB,
  used: used * MIB,
  cache: cache * MIB,
  shared: shared * MIB,
});

function mebibytes(text: string): Record<string, number> {
  const lines = text.trimEnd().split("\n");
  return Object.fromEntries(
    lines.map((line) => {
      const [, name = "", kibibytes] = /^(\S+): +(\d+) kB$/.exec(line) ?? [line];
      return [name, Number(kibibytes) / 1024];
    }),
  );
}

describe("the numbers", () => {
  test("agree with each other", () => {
    const reported = mebibytes(meminfoText(use(1024, 300, 100, 40)));
    expect(reported).toMatchObject({
      MemTotal: 1024,
      MemFree: 624,
      MemAvailable: 724,
      Cached: 140,
      Shmem: 40,
      Buffers: 0,
    });
    expect(reported).toMatchObject({ SwapTotal: 0, SwapFree: 0, AnonPages: 260, Active: 260, Inactive: 140 });
    expect(Object.values(reported).every((value) => value >= 0)).toBe(true);
  });

  test("are never negative, and never above the total", () => {
    const reported = mebibytes(meminfoText(use(128, 200, 50, 300)));
    expect(reported).toMatchObject({ MemTotal: 128, MemFree: 0, MemAvailable: 50, AnonPages: 0 });
  });

  // Guards against numbers that are not padded.
  test("have a fixed width, so that one text replaces another", () => {
    const lengths = [use(128), use(1024, 1023), use(8 * 1024 * 1024, 4 * 1024 * 1024)].map(
      (each) => meminfoText(each).length,
    );
    expect(new Set(lengths).size).toBe(1);
  });
});

describe("the file", () => {
  beforeEach(() => writeFileSync(path, meminfoText(use(1024))));

  test("is written in place, at a bounded rate", () => {
    let nowMs = 5_000;
    let measured = 0;
    const file = new MeminfoFile(
      path,
      () => use(1024, ++measured),
      () => nowMs,
    );
    for (let times = 0; times < 100; times++) file.refresh();
    expect(mebibytes(readFileSync(path, "utf8")).MemFree).toBe(1023);
    nowMs += MEMINFO_EVERY_MS;
    file.refresh();
    expect(readFileSync(path, "utf8")).toBe(meminfoText(use(1024, 2)));
    expect(measured).toBe(2);
  });

  test("may be missing or removed", () => {
    for (const absent of [`${folder}/nothing`, undefined]) {
      const file = new MeminfoFile(absent, () => use(1));
      file.touch();
      file.refresh();
    }
    expect(readFileSync(path, "utf8")).toBe(meminfoText(use(1024)));
  });

  // The host watches it, and would look for the guest much later.
  test("is touched, without a change of content, when a guest listens", async () => {
    const before = 1_000;
    utimesSync(path, before, before);
    await using guest = await RunningGuest.start({ SANDLOT_MEMORY_FILE: path });
    // The kernel takes connections a moment before the guest has come to its touch.
    expect((await guest.fetch("/health")).status).toBe(204);
    expect(statSync(path).mtimeMs).toBeGreaterThan(before * 1000);
    expect(readFileSync(path, "utf8")).toBe(meminfoText(use(1024)));
  });

  // Guards against a file that is written after the start of the process.
  test("is current for a process from its start", async () => {
    await using guest = await RunningGuest.start({ SANDLOT_MEMORY_FILE: path, SANDLOT_MEMORY_MB: "77" });
    const result = await new ProcessCalls(guest).run(shell(`cat ${path}`));
    expect(mebibytes(result.stdout).MemTotal).toBe(77);
  });

  // Guards against a file that is written for starts only.
  test("is current for a process that gets input", async () => {
    await using guest = await RunningGuest.start({ SANDLOT_MEMORY_FILE: path, SANDLOT_MEMORY_MB: "77" });
    const processes = new ProcessCalls(guest);
    const { pid, rest } = await processes.start(shell(`read -r _; cat ${path}`));
    await Bun.sleep(MEMINFO_EVERY_MS);
    writeFileSync(path, meminfoText(use(1)));
    await processes.input(pid, "\n");
    let text = "";
    for await (const { json } of rest) text += Buffer.from(json.event?.data?.stdout ?? "", "base64").toString();
    expect(mebibytes(text).MemTotal).toBe(77);
  });

  // Guards against a file that is written for processes only.
  test("is current for a client that downloads it before any process", async () => {
    await using guest = await RunningGuest.start({ SANDLOT_MEMORY_FILE: path, SANDLOT_MEMORY_MB: "77" });
    const reported = await (await guest.fetch(`/files?path=${encodeURIComponent(path)}`)).text();
    expect(mebibytes(reported).MemTotal).toBe(77);
  });
});
