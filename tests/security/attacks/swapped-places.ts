/**
 * Attack 21, behind any isolation runtime: a sandbox keeps swapping files, folders, links and pipes on its volume while
 * the server works on the volume's files for a client.
 */
import { expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Sandbox, Volume } from "e2b";
import type { TestServer } from "../../support/server.ts";
import type { VolumesOfServer } from "../../support/volumes.ts";

const ROUNDS_MAX = 2_000;

interface Attacked {
  server(): TestServer;
  volumes: VolumesOfServer;
  volume(): Volume;
  /** The volume is at /v in it. */
  sandbox(): Sandbox;
  /** How often everything is tried. */
  rounds: number;
}

/** The result of the call, or the status of its refusal. */
export async function statusOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    (value) => String(value),
    (error: Error) => /^(\d{3})/.exec(error.message)?.[1] ?? error.constructor.name,
  );
}

/** For ever, and says when it has begun. In one step, or in three where the kernel inside cannot do that. */
function swapping(one: string, other: string): string {
  return `import ctypes, os
os.chdir("/v")
swap = lambda: ctypes.CDLL(None).renameat2(-100, b"${one}", -100, b"${other}", 2) == 0
swap()
print("begun", flush=True)
while swap(): pass
while True:
    for old, new in (("${one}", "${one}-away"), ("${other}", "${one}"), ("${one}-away", "${other}")):
        try: os.rename(old, new)
        except OSError: pass`;
}

export function holdAgainstSwaps({ server, volumes, volume, sandbox, rounds }: Attacked): void {
  const root = async (command: string) => await sandbox().commands.run(command, { user: "root" });

  async function whileSwapping(one: string, other: string, attack: () => Promise<void>): Promise<void> {
    await sandbox().files.write("/tmp/swap.py", swapping(one, other));
    const begun = Promise.withResolvers<void>();
    const options = { user: "root", background: true, timeoutMs: 0, onStdout: () => begun.resolve() } as const;
    const swapper = await sandbox().commands.run("exec python3 -u /tmp/swap.py", options);
    await begun.promise;
    await attack();
    await swapper.kill();
  }

  test("is not led out of the volume by swapped folders and links", async () => {
    await root("mkdir /v/real && echo mine > /v/real/server.json && chmod 777 /v/real");
    await root(`ln -s ${server().dataFolder} /v/link`);
    const own = join(server().dataFolder, "server.json");
    const before = await Bun.file(own).text();
    const seen = new Set<string>();
    await whileSwapping("real", "link", async () => {
      // Both are seen, however the machine schedules them.
      for (let round = 0; round < rounds || (seen.size === 1 && round < ROUNDS_MAX); round++) {
        const at = volumes.at;
        seen.add(await statusOf(volume().readFile("/real/server.json", at)));
        await statusOf(volume().writeFile("/real/server.json", "mine\\n", { ...at, force: true }));
        await statusOf(volume().updateMetadata("/real/server.json", { mode: 0o666 }, at));
        const listed = await volume()
          .list("/", { ...at, depth: 3 })
          .catch(() => []);
        for (const { path } of listed) expect(path).not.toMatch(/store/);
        await statusOf(volume().remove("/real/api-key", at));
      }
    });
    expect([...seen].filter((each) => !/^mine|^404|NotFound/.test(each))).toEqual([]);
    expect(seen.size).toBeGreaterThan(1);
    expect(await Bun.file(own).text()).toBe(before);
    expect(statSync(own).mode & 0o777).toBe(0o600);
    expect(statSync(join(server().dataFolder, "api-key")).isFile()).toBe(true);
  });

  test("opens no pipe, even one swapped in for a file at that moment, and does not block", async () => {
    await root("echo file > /v/file && mkfifo /v/pipe");
    // A reader blocked on the pipe would be released by a process that opens the other end.
    const open = "for n in 1 2; do echo x > /v/$(ls -F /v | grep -o '.*|' | tr -d '|'); done";
    const seen = new Set<string>();
    await whileSwapping("file", "pipe", async () => {
      const writer = await sandbox().commands.run(open, { user: "root", background: true, timeoutMs: 0 });
      for (let round = 0; round < rounds; round++) {
        seen.add(await statusOf(volume().readFile("/file", volumes.at)));
        await statusOf(volume().writeFile("/file", "file\\n", { ...volumes.at, force: true }));
        expect((await fetch(`${server().url}/health`)).status).toBe(200);
      }
      await writer.kill();
    });
    expect([...seen].filter((each) => !/^file|^x|^400|^404|NotFound|^$/.test(each))).toEqual([]);
    await root("rm -f /v/file* /v/pipe");
  });
}
