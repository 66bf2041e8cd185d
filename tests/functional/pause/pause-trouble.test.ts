/**
 * Pauses with a full or unwritable disk, and every operation while another process holds the store's lock: the sandbox
 * runs on, the caller is told why, and everything works again once the trouble is over.
 */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { SEED } from "../../../src/base/testing/seed.ts";
import { seededRandom } from "../../../src/control/testing/control-fixture.ts";
import { SQLITE_BUSY_MS } from "../../../src/store/sqlite.ts";
import { run } from "../../../src/system/command.ts";
import { OPERATIONS, type Operation, OperationWatch } from "../../chaos/operations.ts";
import { judge, leaks, newTestedSandbox, type TestedSandbox } from "../../chaos/scenario.ts";
import { SmallFilesystem } from "../../chaos/small-filesystem.ts";
import { type Answer, namesIn, Stage } from "../../chaos/stage.ts";
import { readWitness } from "../../chaos/witness.ts";
import { newDataFolder, tearDownServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const DISK_BYTES = 7 * 1024 ** 3;
/** Less than the reserve that is always kept for running sandboxes. */
const TOO_LITTLE_BYTES = 900 * 1024 ** 2;
const TRIES = 5;
const folder = foldersOfFile();

interface Disturbance {
  begin(): Promise<void>;
  end(): Promise<void>;
}

/**
 * Disturbs a pause in the middle; on a busy machine the disturbance may come too late, and then it tries another pause.
 */
async function disturbedPause(
  stage: Stage,
  tested: TestedSandbox,
  disturbance: Disturbance,
): Promise<Answer | undefined> {
  for (let tries = 0; tries < TRIES; tries++) {
    const watch = new OperationWatch(stage, tested.id);
    let isOver = false;
    const answered = stage.ask("POST", `/sandboxes/${tested.id}/pause`, {}).finally(() => {
      isOver = true;
    });
    await until("CRIU writes", () => isOver || watch.working("dump"));
    await disturbance.begin();
    const answer = await answered;
    if (answer?.status !== 204) return answer;
    await disturbance.end();
    await resume(stage, tested);
    await until("its checkpoint is gone", () => namesIn(stage.checkpoints).length === 0);
  }
  throw new Error(`none of ${TRIES} pauses was disturbed`);
}

async function expectItself(stage: Stage, tested: TestedSandbox): Promise<void> {
  expect(await readWitness(stage, tested.id)).toEqual({ word: tested.word, file: tested.word, line: tested.word });
}

/** Allocates memory that does not fit into the free space of the disk. */
async function holdMuch(stage: Stage, tested: TestedSandbox): Promise<void> {
  const sandbox = await Sandbox.connect(tested.id, stage.server.options);
  const program = "import os, time; held = os.urandom(200 << 20); open('/tmp/held', 'w'); time.sleep(600)";
  await sandbox.commands.run(`setsid python3 -c "${program}" </dev/null >/dev/null 2>&1 &`);
  await until("much is held", () => sandbox.files.exists("/tmp/held"));
}

async function pauseAndResume(stage: Stage, tested: TestedSandbox): Promise<void> {
  expect((await stage.ask("POST", `/sandboxes/${tested.id}/pause`, {}))?.status).toBe(204);
  await resume(stage, tested);
}

async function resume(stage: Stage, tested: TestedSandbox): Promise<void> {
  expect(await stage.ask("POST", `/sandboxes/${tested.id}/resume`, { timeout: 600 })).toMatchObject({ status: 201 });
  await expectItself(stage, tested);
}

describe("a full disk", () => {
  describe("on btrfs", () => {
    const data = newDataFolder("full-btrfs");
    let disk: SmallFilesystem;
    let stage: Stage;
    let tested: TestedSandbox;
    beforeAll(async () => {
      disk = await SmallFilesystem.make(data, "btrfs", DISK_BYTES);
      stage = await Stage.open(data);
      tested = await newTestedSandbox(stage);
    });
    afterAll(async () => {
      await stage.close();
      await tearDownServer(data);
      await disk.remove();
    });

    test("when the pause begins: 507, and the sandbox runs on", async () => {
      await refusedAtItsBeginning(disk, stage, tested);
      await pauseAndResume(stage, tested);
      expect(await leaks(stage, [tested.id])).toEqual([]);
    });

    test("while memory is written: 507, no checkpoint, and the sandbox runs on", async () => {
      await holdMuch(stage, tested);
      const answer = await disturbedPause(stage, tested, { begin: () => disk.fill(), end: () => disk.empty() });
      expect(answer).toMatchObject({
        status: 507,
        body: { message: expect.stringMatching(/no space for (a|this)/) },
      });
      expect(namesIn(stage.checkpoints)).toEqual([]);
      await expectItself(stage, tested);
      await disk.empty();
      await pauseAndResume(stage, tested);
      expect(await leaks(stage, [tested.id])).toEqual([]);
    });
  });

  test("when the pause begins, on ext4: 507; to the last block: earlier checkpoints are intact", async () => {
    const data = newDataFolder("full-pool");
    const disk = await SmallFilesystem.make(data, "ext4", DISK_BYTES);
    try {
      const stage = await Stage.open(data);
      const [paused, writer] = [await newTestedSandbox(stage), await newTestedSandbox(stage)];
      await refusedAtItsBeginning(disk, stage, paused);
      expect((await stage.ask("POST", `/sandboxes/${paused.id}/pause`, {}))?.status).toBe(204);
      const sandbox = await Sandbox.connect(writer.id, stage.server.options);
      await disk.fill();
      await sandbox.commands.run("dd if=/dev/urandom of=/home/user/big bs=1M count=400; sync").catch(() => undefined);
      await disk.empty();
      await stage.server.crash();
      await tearDownServer(data);
      const again = await Stage.open(data);
      expect([...(await again.listed())]).toEqual([[paused.id, "paused"]]);
      await resume(again, paused);
      await again.close();
    } finally {
      await tearDownServer(data);
      await disk.remove();
    }
  });

  async function refusedAtItsBeginning(disk: SmallFilesystem, stage: Stage, tested: TestedSandbox): Promise<void> {
    await disk.fill(TOO_LITTLE_BYTES);
    expect(await stage.ask("POST", `/sandboxes/${tested.id}/pause`, {})).toMatchObject({
      status: 507,
      body: { message: expect.stringMatching(/no space for a checkpoint.*MiB are free/) },
    });
    expect(namesIn(stage.checkpoints)).toEqual([]);
    await expectItself(stage, tested);
    await disk.empty();
  }
});

test("a disk that becomes read-only during a pause: an error, and the sandbox runs on", async () => {
  const stage = await Stage.open(folder("read-only"));
  const tested = await newTestedSandbox(stage);
  const checkpoints = join(stage.dataFolder, "disks/checkpoints");
  const mount = (...args: string[]) => run(["nsenter", `--mount=/run/sandlot/${stage.tag}/world/mnt`, "--", ...args]);
  const readOnly = "mount --bind $0 $0 && mount -o remount,bind,ro $0";
  const answer = await disturbedPause(stage, tested, {
    begin: async () => void (await mount("sh", "-c", readOnly, checkpoints)),
    end: async () => void (await mount("umount", checkpoints)),
  });
  expect(answer).toMatchObject({ status: 500, body: { message: expect.stringMatching(/still running/) } });
  await expectItself(stage, tested);
  // The next one does not even begin.
  expect((await stage.ask("POST", `/sandboxes/${tested.id}/pause`, {}))?.status).toBe(500);
  await expectItself(stage, tested);
  await mount("umount", checkpoints);
  await pauseAndResume(stage, tested);
  // The next start removes what could not be removed then.
  await stage.restart();
  expect(await leaks(stage, [tested.id])).toEqual([]);
  await stage.close();
});

describe(`a store locked by another process for longer than the server waits (SANDLOT_TEST_SEED=${SEED})`, () => {
  const random = seededRandom(SEED);
  const all = OPERATIONS.flatMap((operation) =>
    ["from the start", "in the middle"].map((when) => ({ operation, when })),
  );
  const one = all[Math.floor(random() * all.length)];
  let stage: Stage;
  let tested: TestedSandbox;
  beforeAll(async () => {
    stage = await Stage.open(folder("locked"));
    tested = await newTestedSandbox(stage);
  });
  afterAll(() => stage.close());

  test.each(
    (LONG ? all : [one]).flatMap((each) =>
      each === undefined ? [] : [[each.operation.name, each.when, each.operation] as const],
    ),
  )("%s, %s: completes or is rejected, nothing in between", async (_name, when, operation) => {
    const step = when === "from the start" ? 0 : Math.floor(operation.steps.length / 2);
    let wasSeen = false;
    for (let tries = 0; !wasSeen; tries++) {
      expect(tries).toBeLessThan(TRIES);
      if (operation.from === "paused") {
        expect((await stage.ask("POST", `/sandboxes/${tested.id}/pause`, {}))?.status).toBe(204);
      }
      const locked = await whileLocked(operation, step);
      const { answer } = locked;
      const { faults, alive } = await judge(stage, tested, { operation, answer, loss: undefined });
      expect(faults).toEqual([]);
      if (step === 0) {
        expect(answer).toMatchObject({ status: 503, body: { message: expect.stringContaining("store is locked") } });
      }
      if (!alive) tested = await newTestedSandbox(stage);
      wasSeen = locked.wasSeen;
    }
  });

  /**
   * Locks the store when the operation has come to the step, and lets it go after longer than the server waits. On a
   * busy machine the operation may be over before it was seen there.
   */
  async function whileLocked(
    operation: Operation,
    step: number,
  ): Promise<{ answer: Answer | undefined; wasSeen: boolean }> {
    using store = new Database(join(stage.dataFolder, "store.sqlite"));
    store.run("PRAGMA busy_timeout = 2000");
    const lock = () => store.run("BEGIN IMMEDIATE");
    const watch = new OperationWatch(stage, tested.id);
    if (step === 0) lock();
    let isOver = false;
    const answered = operation.begin(stage, tested.id).finally(() => {
      isOver = true;
    });
    if (step > 0) {
      let wasSeen = false;
      await until("it is in the middle", () => {
        wasSeen = operation.steps[step]?.isSeen(watch) ?? true;
        return wasSeen || isOver;
      });
      if (!wasSeen) return { answer: await answered, wasSeen };
      lock();
    }
    // From the start on it is rejected, however late the server comes to it.
    if (step === 0) await Promise.race([answered, Bun.sleep(4 * SQLITE_BUSY_MS)]);
    await Bun.sleep(step === 0 ? 1_000 : SQLITE_BUSY_MS + 1_000);
    store.run("ROLLBACK");
    return { answer: await answered, wasSeen: true };
  }
});
