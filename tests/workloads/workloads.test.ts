/**
 * Programs that agents really run, through a pause: each starts as a client would start it, builds up state that only
 * its memory holds, and goes on after nothing was left of the sandbox but its checkpoint. The rows of docs/pause.md are
 * these tests.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { LONG } from "../../src/base/testing/long.ts";
import type { CreateSandbox } from "../../src/contract/internal/host.ts";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import { Machine } from "../../src/host/machine.ts";
import { guestFolder } from "../../src/setup/guest-folder.ts";
import { applySettings } from "../../src/setup/host-changes.ts";
import { teardown } from "../../src/setup/teardown.ts";
import { attempt, run } from "../../src/system/command.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { Toolbox } from "../../src/system/toolbox.ts";
import { CACHE } from "../support/cache.ts";
import { newDataFolder } from "../support/server.ts";
import { browsers } from "./browsers.ts";
import type { Conversation } from "./conversation.ts";
import { SHARING_BUN, SHARING_PROGRAM, sharings } from "./copy-state.ts";
import { CHROMIUM_IMAGE, WORKLOADS_IMAGE } from "./images.ts";
import { type Holding, holdingProgram, holdings } from "./process-state.ts";
import { Stage } from "./stage.ts";
import type { Workload } from "./workload.ts";
import { workloads } from "./workloads.ts";

const MEMORY_MB = 3072;
/** Memory is written to the disk and read again several times, and the disk may have much else to do. */
const PLAY_MS = 600_000;

const dataFolder = newDataFolder("workloads");
let data: DataFolder;
let machine: Machine;

beforeAll(async () => {
  mkdirSync(dataFolder, { recursive: true });
  data = new DataFolder(dataFolder);
  data.makeRunFolder();
  // As on most machines, where /run is mounted like this.
  await run(["mount", "-t", "tmpfs", "-o", "nosuid,nodev,noexec,mode=711", "tmpfs", data.sandboxesFolder]);
  applySettings(data);
  machine = await Machine.open({
    data,
    cacheFolder: CACHE,
    guestFolder: guestFolder(new Toolbox(CACHE)),
    resolver: "9.9.9.9",
  });
});
afterAll(async () => {
  await machine.close();
  await attempt(["umount", `${dataFolder}/disks`]);
  await attempt(["umount", data.sandboxesFolder]);
  await teardown(data, CACHE, { keepData: false });
});

const request = (image: string): CreateSandbox => ({
  kind: { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image, memoryMB: MEMORY_MB },
  envVars: {},
  accessTokens: [],
  egress: "open",
});

function titleOf({ what, sample }: Workload): string {
  return LONG || sample === undefined ? what : `${what} (here: ${sample})`;
}

async function play(image: string, workload: Workload): Promise<void> {
  await using stage = await Stage.open(machine, dataFolder, request(image));
  await workload.play(stage);
}

/** With SANDLOT_TEST_LONG=1 each workload has a sandbox of its own. */
function isPlayedAlone({ isAlone }: Workload): boolean {
  return LONG || isAlone === true;
}

describe.each([workloads.filter(({ fate }) => fate !== "refused"), workloads.filter(({ fate }) => fate === "refused")])(
  "a pause",
  (...rows) => {
    let failures = new Map<Workload, unknown>();
    beforeAll(async () => {
      const together = rows.filter((workload) => !isPlayedAlone(workload));
      if (together.length === 0) return;
      await using stage = await Stage.open(machine, dataFolder, request(WORKLOADS_IMAGE));
      failures = await stage.playTogether(together);
    }, PLAY_MS);

    test.each(rows.map((workload) => [workload.fate, titleOf(workload), workload] as const))(
      "%s: %s",
      async (_fate, _what, workload) => {
        if (isPlayedAlone(workload)) await play(WORKLOADS_IMAGE, workload);
        if (failures.has(workload)) throw failures.get(workload);
      },
      PLAY_MS,
    );
  },
);

describe("a process that holds", () => {
  const output = new Map<Holding, { before: string; after: string }>();

  beforeAll(async () => {
    await using stage = await Stage.open(machine, dataFolder, request(WORKLOADS_IMAGE));
    const holders = await Promise.all(
      holdings.map(async (holding) => ({ holding, program: await stage.python(holdingProgram(holding)) })),
    );
    const each = <Result>(when: string, work: (program: Conversation) => Promise<Result>) =>
      Promise.all(
        holders.map(({ holding, program }) =>
          work(program).catch((cause: unknown) => {
            throw new Error(`${holding.what}, ${when}`, { cause });
          }),
        ),
      );
    const look = (when: string) => each(when, (program) => program.ask("", /<(.*)>\n/));
    await each("at its start", (program) => program.hear(/<ready>/));
    const before = await look("before the pause");
    await stage.pauseAndResumeTwice();
    const after = await look("after the pause");
    for (const [at, holding] of holdings.entries()) {
      output.set(holding, { before: before[at] ?? "", after: after[at] ?? "" });
    }
  }, PLAY_MS);

  test.each(holdings.map((holding) => [holding.what, holding] as const))("%s", (_what, holding) => {
    const { before, after } = output.get(holding) ?? { before: "nothing", after: "nothing at all" };
    expect(after).toBe(holding.after ?? before);
    if (holding.fate === "reset") expect(after).not.toBe(before);
  });
});

describe("a copy", () => {
  const original = new Map<string, string>();
  const copied = new Map<string, string>();

  beforeAll(async () => {
    await using stage = await Stage.open(machine, dataFolder, request(WORKLOADS_IMAGE));
    await stage.sandbox.files.write(SHARING_BUN, Bun.file(process.execPath).stream());
    await stage.sandbox.commands.run(`chmod +x ${SHARING_BUN}`);
    const program = await stage.python(SHARING_PROGRAM);
    await program.hear(/<ready>/);
    await using copy = await stage.copy();
    const inCopy = await copy.process(program.pid);
    for (const { what, look } of sharings) {
      original.set(what, await program.ask(look, /<(.*)>\n/));
      copied.set(what, await inCopy.ask(look, /<(.*)>\n/));
    }
  }, PLAY_MS);

  test.each(sharings.map(({ what, inCopy }) => [what, inCopy] as const))("and its original: %s: %s", (what, inCopy) => {
    expect(original.get(what)).toBeTruthy();
    if (inCopy === "the same") expect(copied.get(what)).toBe(original.get(what) ?? "");
    else expect(copied.get(what)).not.toBe(original.get(what) ?? "");
  });
});

describe.if(LONG)("a browser:", () => {
  test.each(browsers.map((workload) => [workload.what, workload] as const))("%s", async (_what, workload) => {
    await play(CHROMIUM_IMAGE, workload);
  });
});
