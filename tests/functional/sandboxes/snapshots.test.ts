/** Snapshots through the official client: names and tags, listing, sandboxes started from them, and deletion. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox, type SnapshotListOpts } from "e2b";
import { startListening } from "../../support/listening.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = sharedServer();
let sandbox: Sandbox;
let made: { unnamed: string; first: string; tagged: string };

beforeAll(async () => {
  const envs = { FROM: "the original", BOTH: "the original" };
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000, envs, metadata: { of: "the original" } });
  await startListening(sandbox, "echo up; exec sleep 12345");
  const [unnamed, first, tagged] = [
    await sandbox.createSnapshot(),
    await sandbox.createSnapshot({ name: "Project" }),
    await Sandbox.createSnapshot(sandbox.sandboxId, { ...server().options, name: "project:v2" }),
  ];
  made = { unnamed: unnamed.snapshotId, first: first.snapshotId, tagged: tagged.snapshotId };
});

async function found(options: SnapshotListOpts = {}): Promise<string[][]> {
  const paginator = Sandbox.listSnapshots({ ...server().options, ...options });
  const pages: string[][] = [];
  while (paginator.hasNext) pages.push((await paginator.nextItems()).map(({ snapshotId }) => snapshotId));
  return pages;
}

test("a snapshot is called by its team, name and tag, or by an id", () => {
  expect(made.unnamed).toMatch(/^[a-z0-9]{20}:default$/);
  expect(made).toMatchObject({ first: "default/project:default", tagged: "default/project:v2" });
});

test("they are found by sandbox, name and tag, the newest first, and page by page", async () => {
  const all = [made.tagged, made.first, made.unnamed];
  expect(await found()).toEqual([all]);
  expect(await found({ sandboxId: sandbox.sandboxId })).toEqual([all]);
  expect(await found({ sandboxId: "i00000000000000000000" })).toEqual([[]]);
  expect(await found({ name: "project" })).toEqual([[made.tagged, made.first]]);
  expect(await found({ name: "project:v2" })).toEqual([[made.tagged]]);
  expect(await found({ name: "nothing-of-that-name" })).toEqual([[]]);
  expect(await found({ limit: 1 })).toEqual(all.map((id) => [id]));
  expect(await found({ limit: 2 })).toEqual([all.slice(0, 2), all.slice(2)]);
});

test("what starts from one has its processes and variables, and everything else as it is asked for", async () => {
  const options = { timeoutMs: 60_000, metadata: { of: "the copy" }, envs: { BOTH: "the copy" } };
  const copy = await Sandbox.create(made.tagged, { ...server().options, ...options });
  const { stdout } = await copy.commands.run("pgrep -fc 'sleep 1234[5]'; echo $FROM, $BOTH");
  expect(stdout).toBe("1\nthe original, the copy\n");
  const facts = await copy.getInfo();
  expect(facts).toMatchObject({ name: "project", metadata: options.metadata, state: "running" });
  expect(facts.endAt.getTime() - facts.startedAt.getTime()).toBe(60_000);
  expect((await sandbox.getInfo()).metadata).toEqual({ of: "the original" });
  await copy.kill();
});

test("while one is made, what clients follow in the original goes on", async () => {
  let heard = "";
  const counting = await sandbox.commands.run("n=0; while read -r _; do n=$((n + 1)); echo $n; done", {
    background: true,
    stdin: true,
    timeoutMs: 0,
    onStdout: (text) => {
      heard += text;
    },
  });
  await counting.sendStdin("\n");
  const { snapshotId } = await sandbox.createSnapshot();
  await counting.sendStdin("\n");
  await until("both lines are heard on the same stream", () => heard === "1\n2\n");
  await counting.kill();
  expect(await Sandbox.deleteSnapshot(snapshotId, server().options)).toBe(true);
});

test("one of a sandbox that itself began as a snapshot stands alone", async () => {
  const child = await Sandbox.create(made.unnamed, server().options);
  await child.files.write("/home/user/of", "the child");
  const { snapshotId } = await child.createSnapshot();
  // A paused sandbox still needs the snapshot it was made from.
  await child.pause();
  const refusal = await refusalOf(Sandbox.deleteSnapshot(made.unnamed, server().options));
  expect(refusal.message).toStartWith("400: ");
  await child.kill();
  expect(await Sandbox.deleteSnapshot(made.unnamed, server().options)).toBe(true);

  const grandchild = await Sandbox.create(snapshotId, server().options);
  expect(await grandchild.files.read("/home/user/of")).toBe("the child");
  await grandchild.kill();
  expect(await Sandbox.deleteSnapshot(snapshotId, server().options)).toBe(true);
  expect(await Sandbox.deleteSnapshot(snapshotId, server().options)).toBe(false);
});

test.each(["Bad Name!", "another-team/project", "a/b/c"])("none can be called %j, and none is made", async (name) => {
  const before = await found();
  expect((await refusalOf(sandbox.createSnapshot({ name }))).message).toStartWith("400: ");
  expect(await found()).toEqual(before);
});
