/**
 * Egress rules hold from the first packet of a sandbox to its last, however the sandbox was made. A program inside
 * sends in every way without a break, also while its sandbox is restored; the test counts outside what gets out.
 *
 * Guards against rules that take effect after the processes of a restored sandbox run, and against resumed or ready
 * sandboxes without their rules.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { ALL_TRAFFIC, Sandbox } from "e2b";
import { INTERNET_PORTS, OUTSIDE, SITES } from "../../../src/host/testing/outer-network.ts";
import { exchange, expectReached, giveProbes, reached } from "../../support/egress/probing.ts";
import { Sending } from "../../support/egress/sending.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const LIFE = { timeoutMs: 600_000 };
const ROUNDS = 20;
const { http, echo } = INTERNET_PORTS;
/** Everything that the program sends is forbidden, something else is not. */
const network = { allowOut: ["allowed.test", "1.1.1.1"], denyOut: [ALL_TRAFFIC] };
const ALLOWED = { address: SITES["other.test"], name: "allowed.test", hosts: ["allowed.test"] };

const server = sharedServer();
let snapshotId: string;
let mark: string;
/** How much of the mark was out when the last sandbox that might send it was gone. */
let before: Record<string, number>;

/** Of a program that a sandbox got with its memory. */
const sendingIn = (sandbox: Sandbox) => Sending.goingOn(sandbox, "other.test");

beforeAll(async () => {
  const open = await Sandbox.create({ ...server().options, ...LIFE });
  await giveProbes(open);
  const sending = await Sending.start(open, OUTSIDE, "other.test");
  mark = await sending.newMark();
  await until("every way leads out", async () => Object.values(await sending.seen(mark)).every((count) => count > 0));
  ({ snapshotId } = await open.createSnapshot());
  await open.kill();
  // The last packets may still be on their way.
  await until("nothing comes any more", async () => {
    before = await sending.seen(mark);
    await Bun.sleep(200);
    return Bun.deepEquals(before, await sending.seen(mark));
  });
});
afterAll(async () => {
  await Sandbox.deleteSnapshot(snapshotId, server().options);
});

/** The program has run for a while, the sandbox reaches what it may, and nothing forbidden got out. */
async function expectHeld(sandbox: Sandbox): Promise<void> {
  const sending = sendingIn(sandbox);
  const began = await sending.rounds();
  expect(await exchange(sandbox, [ALLOWED])).toEqual([[`allowed.test@${SITES["allowed.test"]}`]]);
  await until("the program goes on", async () => (await sending.rounds()) > began + ROUNDS);
  expect(await sending.seen(mark)).toEqual(before);
}

async function expectFreed(sandbox: Sandbox): Promise<void> {
  const sending = sendingIn(sandbox);
  await sandbox.updateNetwork({});
  const isOut = async () =>
    Object.entries(await sending.seen(mark)).every(([way, count]) => count > (before[way] ?? 0));
  await until("it gets out when it may", isOut);
}

test("a sandbox restored from one without rules never sends a packet against its own rules", async () => {
  const sandbox = await Sandbox.create(snapshotId, { ...server().options, ...LIFE, network });
  await expectHeld(sandbox);

  await sandbox.pause();
  await sandbox.connect(LIFE);
  await expectHeld(sandbox);

  const [fork] = await sandbox.fork({ count: 1, ...LIFE });
  if (!(fork instanceof Sandbox)) throw fork ?? new Error("nothing was forked");
  await expectHeld(fork);
  expect((await fork.getInfo()).network).toMatchObject(network);

  const copy = await sandbox.createSnapshot();
  await expectHeld(sandbox);
  const again = await Sandbox.create(copy.snapshotId, { ...server().options, ...LIFE, network });
  await expectHeld(again);
  await Promise.all([fork.kill(), again.kill()]);
  await expectHeld(sandbox);
  // It was tried all the time.
  await expectFreed(sandbox);
  await sandbox.kill();
  await Sandbox.deleteSnapshot(copy.snapshotId, server().options);
});

test("the last update of the rules holds after a pause", async () => {
  const [OTHER, ONE] = ["8.8.8.8", "1.1.1.1"];
  const sandbox = await Sandbox.create({ ...server().options, ...LIFE, network: { denyOut: [OTHER] } });
  await giveProbes(sandbox);
  await sandbox.updateNetwork({ denyOut: [ONE] });
  for (const restored of [async () => undefined, () => sandbox.pause()]) {
    await restored();
    await sandbox.connect(LIFE);
    await expectReached(sandbox, [`tcp ${OTHER} ${http}`, `udp ${OTHER} ${echo}`]);
    expect(await reached(sandbox, [`tcp ${ONE} ${http}`, `udp ${ONE} ${echo}`, `icmp ${ONE} 0`])).toEqual([]);
  }
});

test("ready sandboxes have the rules of their create request from the first packet", async () => {
  const allowed = ["1.1.1.1", "8.8.8.8", "9.9.9.9", OUTSIDE];
  const sandboxes = await Promise.all(
    allowed.map((address) =>
      Sandbox.create({
        ...server().options,
        ...LIFE,
        network: { allowOut: [address], denyOut: [ALL_TRAFFIC] },
      }),
    ),
  );
  await Promise.all(
    sandboxes.map(async (sandbox, index) => {
      await giveProbes(sandbox);
      const own = `tcp ${allowed[index]} ${http}`;
      const others = allowed.map((address) => `tcp ${address} ${http}`).filter((probe) => probe !== own);
      expect(await reached(sandbox, others)).toEqual([]);
      await expectReached(sandbox, [own]);
    }),
  );
});
