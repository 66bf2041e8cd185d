/**
 * Many sandboxes with their own rules at once stay separate. All names lead to one address, so that only the name tells
 * them apart.
 *
 * Guards against a DNS relay that checks no rules.
 */
import { expect, test } from "bun:test";
import { ALL_TRAFFIC, Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { NAME_SERVER, SITES } from "../../../src/host/testing/outer-network.ts";
import { type Exchange, exchange, giveProbes } from "../../support/egress/probing.ts";
import { sharedServer } from "../../support/shared-server.ts";

const COUNT = LONG ? 100 : 5;
const AT_ONCE = 10;
const TEST_MS = 600_000;
const address = SITES["wild.test"];
const server = sharedServer();

const nameOf = (index: number) => `s${index % COUNT}.wild.test`;
const rulesOf = (index: number) => ({ allowOut: [nameOf(index), `20.0.${index}.0/24`], denyOut: [ALL_TRAFFIC] });
const ways = (name: string): Exchange[] => [
  { address, hosts: [name] },
  { address, name, hosts: [name] },
];

/** Not all at once: a test of rules, not of how much the machine carries. */
async function inGroups<T>(items: readonly T[], work: (item: T, index: number) => Promise<void>): Promise<void> {
  for (let first = 0; first < items.length; first += AT_ONCE) {
    await Promise.all(items.slice(first, first + AT_ONCE).map((item, at) => work(item, first + at)));
  }
}

/** It reaches its own name and is answered for it, and neither of the next one's. */
async function expectApart(sandbox: Sandbox, own: string, next: string): Promise<void> {
  const responses = await exchange(sandbox, [...ways(own), ...ways(next)]);
  expect(responses.slice(0, 2)).toEqual(Array(2).fill([`${own}@${address}`]));
  expect(responses.slice(2).flat().join()).not.toContain("@");
  const { stdout } = await sandbox.commands.run(`python3 /tmp/ask.py ${NAME_SERVER} ${own} ${next}`);
  expect(stdout).toBe(`${own} udp 0 1 tcp 0 1\n${next} udp 5 0 tcp 5 0\n`);
}

test(
  `${COUNT} sandboxes reach only what each may, also while all exchange their rules at once`,
  async () => {
    const sandboxes: Sandbox[] = [];
    await inGroups([...Array(COUNT).keys()], async (index) => {
      const sandbox = await Sandbox.create({ ...server().options, timeoutMs: TEST_MS, network: rulesOf(index) });
      await giveProbes(sandbox);
      sandboxes[index] = sandbox;
    });
    await inGroups(sandboxes, (sandbox, index) => expectApart(sandbox, nameOf(index), nameOf(index + 1)));
    await Promise.all(sandboxes.map((sandbox, index) => sandbox.updateNetwork(rulesOf(index + 1))));
    await inGroups(sandboxes, (sandbox, index) => expectApart(sandbox, nameOf(index + 1), nameOf(index)));
  },
  TEST_MS,
);
