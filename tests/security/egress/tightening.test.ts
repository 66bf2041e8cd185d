/**
 * Tightened rules hold when the update is answered, for open connections as well as new ones. No update opens what the
 * rules before and after it both forbid.
 *
 * Guards against a firewall that lets replies to sandboxes pass whatever the rules say, a relay that keeps connections
 * of earlier rules, a DNS relay that checks no rules, and an update that removes the old rules before it adds the new
 * ones.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ALL_TRAFFIC, Sandbox, type SandboxNetworkUpdate } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { NAME_SERVER, OUTSIDE, SITES } from "../../../src/host/testing/outer-network.ts";
import { run } from "../../../src/system/command.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { expectReached, giveProbes, newMark, reached, timesAsked, timesSeen } from "../../support/egress/probing.ts";
import { Sending } from "../../support/egress/sending.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const server = sharedServer();
const UPDATES = LONG ? 1_000 : 24;
/** So often all probes are sent meanwhile, at least. */
const ROUNDS_MIN = 20;
const ALLOWED_SITE = SITES["allowed.test"];

/** Some go straight to an address that is allowed, some to a name through the relay. */
const FLOWS = [
  { kind: "tcp", address: OUTSIDE },
  { kind: "udp", address: OUTSIDE },
  { kind: "udp-drip", address: OUTSIDE },
  { kind: "drip", address: OUTSIDE, host: OUTSIDE },
  { kind: "drip", address: ALLOWED_SITE, host: "allowed.test" },
  { kind: "drip", address: ALLOWED_SITE, name: "allowed.test" },
  { kind: "dns", address: NAME_SERVER, query: "wild.test" },
];
const LOOSE: SandboxNetworkUpdate = {
  allowInternetAccess: true,
  allowOut: [OUTSIDE, "allowed.test", "wild.test", "*.wild.test"],
  denyOut: [ALL_TRAFFIC],
};
const none = FLOWS.map(() => false);

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await giveProbes(sandbox);
});

/** On which flows that were open before the update something passes after it; it should on those `open`. */
async function passAfter(mark: string, rules: SandboxNetworkUpdate, open: readonly boolean[]): Promise<unknown> {
  await sandbox.commands.run("rm -f /tmp/phase");
  await sandbox.updateNetwork(LOOSE);
  const isOpen = Promise.withResolvers<void>();
  const program = `python3 -u /tmp/flows.py '${JSON.stringify(FLOWS)}' ${mark} '${JSON.stringify(open)}'`;
  const flows = await sandbox.commands.run(program, {
    background: true,
    timeoutMs: 120_000,
    onStdout: () => isOpen.resolve(),
  });
  const ended = flows.wait();
  await Promise.race([isOpen.promise, ended]);
  await sandbox.updateNetwork(rules);
  await sandbox.files.write("/tmp/phase", "after");
  const { stdout } = await ended;
  return JSON.parse(stdout.split("\n")[1] ?? "");
}

describe("flows that are open", () => {
  test("continue under rules that still allow them", async () => {
    const mark = newMark();
    const rules = { ...LOOSE, allowOut: ["8.8.8.8", ...(LOOSE.allowOut as string[])] };
    const all = none.map(() => true);
    expect(await passAfter(mark, rules, all)).toEqual(all);
    expect(await timesSeen(mark)).toBe(2);
    expect(await timesAsked(`${mark}.wild.test`)).toBe(1);
  });

  const TIGHT: [string, SandboxNetworkUpdate][] = [
    ["other names", { allowOut: ["other.test", "front.test"], denyOut: [ALL_TRAFFIC] }],
    ["nothing, as no internet", { allowInternetAccess: false }],
    ["other addresses", { allowOut: ["1.1.1.1"], denyOut: [ALL_TRAFFIC] }],
    ["nothing", { denyOut: [ALL_TRAFFIC] }],
  ];
  test.each(LONG ? TIGHT : TIGHT.slice(0, 2))("are cut in both directions by rules that allow %s", async (_, rules) => {
    const mark = newMark();
    expect(await passAfter(mark, rules, none)).toEqual(none);
    expect([await timesSeen(mark), await timesAsked(`${mark}.wild.test`)]).toEqual([0, 0]);
  });

  test("are cut by rules that deny their destination", async () => {
    const mark = newMark();
    const expected = FLOWS.map(({ kind }) => kind === "dns");
    expect(await passAfter(mark, { denyOut: [OUTSIDE, ALLOWED_SITE] }, expected)).toEqual(expected);
    expect(await timesSeen(mark)).toBe(0);
  });
});

describe(`in ${UPDATES} updates between two sets of rules`, () => {
  let sending: Sending;
  beforeAll(async () => {
    sending = await Sending.start(sandbox, OUTSIDE, "other.test");
  });
  afterAll(() => sending.stop());

  test("probes that both forbid never pass", async () => {
    const sets: SandboxNetworkUpdate[] = [
      { allowOut: ["1.1.1.1", "allowed.test", "*.wild.test"], denyOut: [ALL_TRAFFIC] },
      { allowOut: ["8.8.8.8", "front.test"], denyOut: ["64.0.0.0/1", "128.0.0.0/1", ALL_TRAFFIC] },
      { denyOut: [OUTSIDE, NAME_SERVER, ALL_TRAFFIC] },
    ];
    await sandbox.updateNetwork(sets[0] ?? {});
    const mark = await sending.newMark();
    const began = await sending.rounds();
    for (let update = 1; update <= UPDATES || !((await sending.rounds()) >= began + ROUNDS_MIN); update++) {
      await sandbox.updateNetwork(sets[update % sets.length] ?? {});
    }
    expect(await sending.seen(mark)).toEqual(Sending.NOTHING);
  });

  test("every probe passes without rules", async () => {
    await sandbox.updateNetwork({});
    const mark = await sending.newMark();
    await until("every way leads out", async () => Object.values(await sending.seen(mark)).every((count) => count > 0));
  });
});

test("concurrent updates end as one of them, and what all forbid stays closed", async () => {
  const rules = Array.from({ length: 12 }, (_, index) => ({
    allowOut: [`9.9.9.${index}`, index % 2 === 0 ? "1.1.1.1" : "8.8.8.8"],
    denyOut: [ALL_TRAFFIC],
  }));
  await Promise.all(rules.map((one) => sandbox.updateNetwork(one)));
  const { network } = await sandbox.getInfo();
  const isFirst = network?.allowOut?.includes("1.1.1.1") === true;
  await expectReached(sandbox, [`tcp ${isFirst ? "1.1.1.1" : "8.8.8.8"} 80`]);
  expect(await reached(sandbox, [`tcp ${isFirst ? "8.8.8.8" : "1.1.1.1"} 80`, `tcp ${OUTSIDE} 80`])).toEqual([]);
});

test("an ended sandbox leaves no rule for the next one with its address", async () => {
  const { table } = { table: `sandlot_${new DataFolder(server().dataFolder).tag}` };
  const rules = () => run(["nft", "list", "table", "inet", table]);
  const network = { allowOut: ["4.3.2.1", "allowed.test"], denyOut: [ALL_TRAFFIC] };
  const other = await Sandbox.create({ ...server().options, network });
  expect(await rules()).toContain("4.3.2.1");
  await other.kill();
  await until("its rules are gone", async () => !(await rules()).includes("4.3.2.1"));
});
