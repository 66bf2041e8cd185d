/** A guest of an earlier version on a real machine: it stays while a sandbox needs it, then it is removed. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, utimesSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { guestFolder } from "../../../src/setup/guest-folder.ts";
import { run } from "../../../src/system/command.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { CACHE } from "../../support/cache.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";

const subject = new MachineOfFile("guest-folders");
const current = guestFolder(new Toolbox(CACHE));
const earlier = join(dirname(current), Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString("hex"));

test("an old guest stays while a checkpoint or a sandbox uses it, and is removed afterwards", async () => {
  await run(["cp", "--archive", "--reflink=auto", current, earlier]);
  await reopen(earlier);
  const { id } = await subject.machine.create(request);
  await subject.machine.pause(id, "paused", { memory: true });
  utimesSync(earlier, 0, 0);

  await reopen(current);
  await subject.machine.collectImages([]);
  expect(marks()).toEqual([basename(current), basename(earlier)].sort());
  await subject.machine.resume({ ...request, id, checkpoint: "paused", memory: true });
  await subject.machine.removeCheckpoint("paused");
  await reopen(current);
  await subject.machine.adopt({ sandboxes: [id], checkpoints: [] });
  await subject.machine.collectImages([]);
  expect(existsSync(earlier)).toBe(true);

  await subject.machine.destroy(id);
  await reopen(current);
  await subject.machine.collectImages([]);
  expect(existsSync(earlier)).toBe(false);
  expect(marks()).toEqual([basename(current)]);

  await subject.teardown({ keepData: false });
  expect(marks()).toEqual([]);
  await subject.open();
});

async function reopen(guest: string): Promise<void> {
  await subject.machine.close();
  await subject.open({ guestFolder: guest });
}

/** Which guests this server has marked. */
function marks(): string[] {
  const { tag } = subject.data;
  return readdirSync(join(dirname(current), "in-use"))
    .filter((name) => name.endsWith(`.${tag}`))
    .map((name) => basename(name, `.${tag}`))
    .sort();
}
