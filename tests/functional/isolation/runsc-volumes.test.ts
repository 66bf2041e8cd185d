/** Volumes of sandboxes with runsc, through the official client, and attacks of such a sandbox through one. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Sandbox, type Volume } from "e2b";
import { holdAgainstSwaps } from "../../security/attacks/swapped-places.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { VolumesOfServer } from "../../support/volumes.ts";

const LIFE = { timeoutMs: 600_000 };
const server = sharedServer("runsc");
const volumes = new VolumesOfServer(server);
let volume: Volume;
let sandbox: Sandbox;
const mounted = (path: string) => Sandbox.create({ ...server().options, ...LIFE, volumeMounts: { [path]: volume } });

beforeAll(async () => {
  volume = await volumes.make("isolated");
  sandbox = await mounted("/v");
});

test("sandboxes share a volume and keep it through a pause and a fork", async () => {
  await volume.writeFile("/from-outside", "hello", volumes.at);
  expect(await sandbox.files.read("/v/from-outside")).toBe("hello");
  await sandbox.files.write("/v/from-inside", "world");
  expect(await volume.getInfo("/from-inside", volumes.at)).toMatchObject({ size: 5, uid: 1000 });
  const other = await mounted("/deep/other");
  expect((await other.commands.run("cat /deep/other/from-inside; echo more >> /deep/other/from-inside")).stdout).toBe(
    "world",
  );
  expect(await sandbox.files.read("/v/from-inside")).toBe("worldmore\n");
  await other.kill();
  await sandbox.pause();
  await volume.writeFile("/meanwhile", "x", volumes.at);
  await sandbox.connect(LIFE);
  expect(await sandbox.files.read("/v/meanwhile")).toBe("x");
  const [fork] = await sandbox.fork({ count: 1, ...LIFE });
  if (!(fork instanceof Sandbox)) throw fork ?? new Error("nothing was forked");
  await fork.files.write("/v/of-fork", "y");
  expect(await sandbox.files.read("/v/of-fork")).toBe("y");
  await fork.kill();
});

describe("reads of a volume under attack", () => {
  holdAgainstSwaps({ server, volumes, volume: () => volume, sandbox: () => sandbox, rounds: 20 });
});
