/** Only root may read a server's files, whatever the server's umask; CRIU may read what it must. */
import { describe, expect, test } from "bun:test";
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { systemCode } from "../../../src/base/system-code.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { HOST_ID_FIRST } from "../../../src/system/id-range.ts";
import { newDataFolder, startServer, type TestServer, tearDownServer } from "../../support/server.ts";

interface Entry {
  path: string;
  mode: string;
  group: number;
}

/** All files below a folder, as the server sees them: disks are mounted in its own namespace. */
function* below(server: TestServer, folder: string, path = ""): Generator<Entry> {
  const seen = join(`/proc/${server.pid}/root`, folder, path);
  const stat = lstatSync(seen, { throwIfNoEntry: false });
  // Files that the server works on come and go.
  if (stat === undefined || stat.isSymbolicLink() || stat.isSocket()) return;
  yield { path, mode: (stat.mode & 0o7777).toString(8), group: stat.gid };
  // The content of a sandbox's disk does not count.
  if (!stat.isDirectory() || /\/(?:disk|root)$/.test(path)) return;
  for (const name of namesIn(seen)) yield* below(server, folder, join(path, name));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** Everything in a data folder that a user other than root could use if there were a way in. */
function openIn(server: TestServer): Record<string, string[]> {
  const open: Record<string, Set<string>> = {};
  for (const { path, mode, group } of below(server, server.dataFolder)) {
    if (/[1-7]/.test(mode.slice(-2))) {
      const where = path.replace(/checkpoints\/[^/]+/, "checkpoints/NAME").replace(/memory\/.*/, "memory/*");
      open[where] = (open[where] ?? new Set()).add(`${mode} ${group === HOST_ID_FIRST ? "mapped root" : group}`);
    }
  }
  return Object.fromEntries(Object.entries(open).map(([where, facts]) => [where, [...facts]]));
}

describe.each([
  ["of 0", 0],
  ["of 077", 0o077],
])("with a umask %s", (_, umask) => {
  test("only root reads the files, and the sandboxes' root reads CRIU's images", async () => {
    const before = process.umask(umask);
    const starting = startServer(newDataFolder(`permissions-${umask}`), { SANDLOT_READY: "1" });
    process.umask(before);
    const server = await starting;
    try {
      const sandbox = await Sandbox.create(server.options);
      await sandbox.commands.run("echo kept > /dev/shm/note");
      const { snapshotId } = await sandbox.createSnapshot();
      await sandbox.pause();
      expect(openIn(server)).toEqual({
        "disks/checkpoints/NAME/memory": ["2750 mapped root"],
        "disks/checkpoints/NAME/memory/*": ["640 mapped root"],
        // Mounted into the sandbox, with this mode.
        "disks/checkpoints/NAME/own/boot-id": ["444 0"],
      });
      await sandbox.connect();
      expect((await sandbox.commands.run("cat /dev/shm/note")).stdout).toBe("kept\n");
      const [copy] = await sandbox.fork({ timeoutMs: 600_000 });
      for (const other of [copy, await Sandbox.create(snapshotId, server.options)]) {
        if (!(other instanceof Sandbox)) throw new Error("there is no copy", { cause: other });
        expect((await other.commands.run("cat /dev/shm/note")).stdout).toBe("kept\n");
      }
      const { runFolder } = new DataFolder(server.dataFolder);
      const writable = [...below(server, runFolder)].filter(({ mode }) => /[2367]/.test(mode.slice(-2)));
      expect(writable).toEqual([]);
    } finally {
      await server.stop();
      await tearDownServer(server.dataFolder);
    }
  });
});
