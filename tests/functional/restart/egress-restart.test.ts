/**
 * Egress rules across a server restart: they hold while no server runs, and the next server knows them all. Guards
 * against a server that adopts sandboxes as if they had no rules.
 */
import { expect, test } from "bun:test";
import { ALL_TRAFFIC, Sandbox } from "e2b";
import { NAME_SERVER, OUTSIDE, SITES } from "../../../src/host/testing/outer-network.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { exchange, expectReached, giveProbes, reached } from "../../support/egress/probing.ts";
import { Sending } from "../../support/egress/sending.ts";
import { shell } from "../../support/inside.ts";
import { startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const LIFE = { timeoutMs: 600_000 };
const folders = foldersOfFile();

test("network rules hold after kill -9 of the server and after the next start", async () => {
  const folder = folders("egress-restart");
  const first = await startServer(folder);
  const network = { allowOut: ["allowed.test", "1.1.1.1"], denyOut: [ALL_TRAFFIC] };
  const [named, addressed] = await Promise.all([
    Sandbox.create({ ...first.options, ...LIFE, network }),
    Sandbox.create({ ...first.options, ...LIFE }),
  ]);
  for (const sandbox of [named, addressed]) await giveProbes(sandbox);
  await addressed.updateNetwork({ denyOut: ["8.8.8.8"] });
  const sending = await Sending.start(named, OUTSIDE, "other.test");
  const mark = await sending.newMark();

  await first.crash();
  const data = new DataFolder(folder);
  const roundsInside = async () => Number((await shell(data, named.sandboxId, "cat /tmp/rounds")).split(" ")[1]);
  const began = await roundsInside();
  await until("it is tried while no server is there", async () => (await roundsInside()) > began + 20);
  expect(await sending.seen(mark)).toEqual(Sending.NOTHING);

  const second = await startServer(folder);
  const [sameNamed, sameAddressed] = await Promise.all(
    [named, addressed].map(({ sandboxId }) => Sandbox.connect(sandboxId, { ...second.options, ...LIFE })),
  );
  if (sameNamed === undefined || sameAddressed === undefined) throw new Error("a sandbox is gone");
  const responses = await exchange(sameNamed, [
    { address: "allowed.test", hosts: ["allowed.test"] },
    { address: SITES["other.test"], name: "other.test", hosts: ["other.test"] },
  ]);
  expect(responses[0]).toEqual([`allowed.test@${SITES["allowed.test"]}`]);
  expect(responses[1]?.join()).not.toContain("@");
  await expectReached(sameNamed, ["tcp 1.1.1.1 80"]);
  await expectReached(sameAddressed, ["tcp 1.1.1.1 80", `dns ${NAME_SERVER} 53`]);
  expect(await reached(sameAddressed, ["tcp 8.8.8.8 80", "udp 8.8.8.8 7000"])).toEqual([]);
  expect(await sending.seen(mark)).toEqual(Sending.NOTHING);
  expect((await sameAddressed.getInfo()).network).toMatchObject({ denyOut: ["8.8.8.8"] });
  await second.stop();
});
