/** How much a later backup sends after 1 % of the bytes of the first has changed. */
import { afterAll, expect, test } from "bun:test";
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Volume } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { counting, expectCounting } from "../../support/counting.ts";
import { sandlotBackup } from "../../support/sandlot-backup.ts";
import { newDataFolder, startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";

const TAKES_MS = 900_000;
const LARGE_FILE_BYTES = 100 * 1024 ** 2;
const SMALL_FILE_BYTES = 512 * 1024;
const SMALL_FILES = 200;
const BLOCK_BYTES = 4096;
/** Of the bytes of the first backup. */
const CHANGED = 0.01;
const SENT_MAX = 0.05;

const folder = foldersOfFile();
const data = folder("changed-data");
const scratch = `${newDataFolder("changed-data")}-files`;
const target = join(scratch, "repository");
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function bytesAtTarget(): number {
  const files = readdirSync(join(target, "data"), { recursive: true, encoding: "utf8" });
  const packs = files.filter((name) => /\/[0-9a-f]{64}$/.test(name));
  return packs.reduce((sum, name) => sum + statSync(join(target, "data", name)).size, 0);
}

/** Bytes that another backup adds at the target. */
async function sentByBackup(): Promise<number> {
  const before = bytesAtTarget();
  await sandlotBackup(data, ["backup", target]);
  return bytesAtTarget() - before;
}

test.skipIf(!LONG)(
  "1 % of changed bytes, in files, ranges and a paused sandbox, sends at most 5 %; all over a file, that file",
  async () => {
    const server = await startServer(data, { SANDLOT_READY: "0" });
    const day = { ...server.options, timeoutMs: 3_600_000 };
    const volume = await Volume.create("changed", server.options);
    const writer = await Sandbox.create({ ...day, volumeMounts: { "/mnt/changed": volume } });
    const write = (line: string) =>
      writer.commands.run(`cd /mnt/changed && ${line}; sync`, { user: "root", timeoutMs: 300_000 });
    const random = (bytes: number) => `head -c ${bytes} /dev/urandom`;
    await write(`mkdir small && for n in $(seq ${SMALL_FILES}); do ${random(SMALL_FILE_BYTES)} > small/$n; done`);
    await write(`${random(LARGE_FILE_BYTES)} > large`);
    const resumed = await Sandbox.create(day);
    await counting(resumed);
    await resumed.pause();
    await sandlotBackup(data, ["backup", "--init", target]);
    const first = bytesAtTarget();
    const changed = Math.ceil(first * CHANGED);
    /** Four kinds of change have the same share. */
    const share = Math.ceil(changed / 4);

    const files = Math.ceil(share / SMALL_FILE_BYTES);
    await write(
      `for n in $(seq ${files}); do ${random(SMALL_FILE_BYTES)} > small/$((n * ${SMALL_FILES} / ${files})); done`,
    );
    await write(`${random(share)} >> large`);
    await write(`${random(share)} | dd of=large bs=64K seek=400 conv=notrunc status=none`);
    await resumed.connect();
    await resumed.commands.run(`${random(share)} > /home/user/written; sync`);
    await resumed.pause();
    expect(await sentByBackup()).toBeWithin(3 * share, SENT_MAX * first);
    await resumed.connect();
    await expectCounting(resumed);
    await resumed.kill();

    const blocks = Math.floor(changed / BLOCK_BYTES);
    const everywhere = `for n in range(${blocks}): f.seek(n * ${Math.floor(LARGE_FILE_BYTES / blocks)}); f.write(os.urandom(${BLOCK_BYTES}))`;
    await write(`python3 -c 'import os; f = open("large", "r+b")\n${everywhere}'`);
    expect(await sentByBackup()).toBeWithin(changed, LARGE_FILE_BYTES + SENT_MAX * first);
    await server.stop();
  },
  TAKES_MS,
);
