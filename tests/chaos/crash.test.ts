/**
 * The disk of a machine that loses power right after a pause. The disks of this server lie in one file; a copy of that
 * file, made while it is mounted, holds what has reached the disk and no unwritten pages. Guards against a missing sync
 * of the pack, and of the large files.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { LONG } from "../../src/base/testing/long.ts";
import { RUNTIME_NAMES } from "../../src/contract/runtime-name.ts";
import { run } from "../../src/system/command.ts";
import { MachineOfFile, request } from "../support/machine-of-file.ts";
import { askService, startService } from "../support/memory-service.ts";

// With runsc only the writer of the memory differs, so it runs in the long lane.
describe.each(LONG ? RUNTIME_NAMES : (["crun"] as const))("with %s", (runtime) => {
  const here = new MachineOfFile(`crash-${runtime}`, { runtime });

  test("a pause that returned survives a crash of the machine right after it", async () => {
    const pool = join(here.dataFolder, "disks.btrfs");
    const remains = `${pool}.remains`;
    if (!existsSync(pool)) {
      console.log("(skip) the data folder can share blocks itself, so there is no file of disks to copy");
      return;
    }
    const { id } = await here.machine.create(request);
    const setup = "word = os.urandom(16).hex(); open('/home/user/word', 'w').write(word)";
    const word = await startService(here.machine, id, setup, "return word + open('/home/user/word').read()");
    await here.machine.pause(id, "crash", { memory: true });
    await run(["cp", "--sparse=always", pool, remains]);
    await here.teardown({ keepData: true });
    renameSync(remains, pool);

    await here.open();
    await here.machine.adopt({ sandboxes: [id], checkpoints: ["crash"] });
    await here.machine.resume({ ...request, id, checkpoint: "crash", memory: true });
    expect(await askService(here.machine, id)).toBe(word);
    await here.machine.destroy(id);
    await here.machine.removeCheckpoint("crash");
  });
});
