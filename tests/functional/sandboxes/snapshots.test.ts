/** Snapshots through the official client: names and tags, listing, sandboxes started from them, and deletion. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
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

test("a snapshot is named by its team, name and tag, or by an id", () => {
  expect(made.unnamed).toMatch(/^[a-z0-9]{20}:default$/);
  expect(made).toMatchObject({ first: "default/project:default", tagged: "default/project:v2" });
});

test("a sandbox of a snapshot has its processes and variables, and the options of its own create", async () => {
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

test("streams of the original continue during a snapshot", async () => {
  let received = "";
  const counting = await sandbox.commands.run("n=0; while read -r _; do n=$((n + 1)); echo $n; done", {
    background: true,
    stdin: true,
    timeoutMs: 0,
    onStdout: (text) => {
      received += text;
    },
  });
  await counting.sendStdin("\n");
  const { snapshotId } = await sandbox.createSnapshot();
  await counting.sendStdin("\n");
  await until("both lines are heard on the same stream", () => received === "1\n2\n");
  await counting.kill();
  expect(await Sandbox.deleteSnapshot(snapshotId, server().options)).toBe(true);
});

test("a snapshot of a sandbox from another snapshot is independent of both", async () => {
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
