/**
 * Packets that leave a sandbox with runsc, after a resume and, with SANDLOT_TEST_LONG=1, a create and a fork; after a
 * create tests/security/runsc-isolation.test.ts tries more. The network stack of runsc, not the machine's kernel,
 * chooses the source address, and the firewall drops packets with another address than the slot's.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { ALL_TRAFFIC, Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { until } from "../../../src/base/testing/until.ts";
import { SANDBOX_ADDRESS } from "../../../src/contract/address-plan.ts";
import {
  INTERNET_PORTS,
  MUST_BE_CLOSED,
  OUTSIDE,
  OUTSIDE_NAME,
  SITES,
} from "../../../src/host/testing/outer-network.ts";
import { forked } from "../../security/attacks/ways-to-start.ts";
import { exchange, expectReached, giveProbes, reached } from "../../support/egress/probing.ts";
import { sharedServer } from "../../support/shared-server.ts";

const LIFE = { timeoutMs: 600_000 };
type LifeOfSandbox = "booted" | "forked" | "resumed";
const LIVES: readonly LifeOfSandbox[] = LONG ? ["booted", "forked", "resumed"] : ["resumed"];

const server = sharedServer("runsc");
let booted: Sandbox;
/** Where the booted one was before it was paused. */
let before: string;

const everyWay = (address: string) => [
  `tcp ${address} ${INTERNET_PORTS.echo}`,
  `udp ${address} ${INTERNET_PORTS.echo}`,
  `icmp ${address} 0`,
];

/** The source addresses of packets to all parts of the internet; nothing is sent. */
const SOURCES = `
import socket
found = set()
for first in set(range(1, 224)) - {127}:
    for rest in ("1.2.3", "254.0.22"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect((f"{first}.{rest}", 9))
            found.add(sender.getsockname()[0])
print(*sorted(found))`;

async function sourceOf(sandbox: Sandbox): Promise<string> {
  return (await sandbox.commands.run(`python3 -c '${SOURCES}'`)).stdout.trim();
}

const lead: Record<LifeOfSandbox, () => Promise<Sandbox>> = {
  booted: async () => booted,
  forked: () => forked(booted),
  /** At another address: a sandbox made from its snapshot meanwhile takes the earlier one. */
  async resumed() {
    const { snapshotId } = await booted.createSnapshot();
    await booted.pause();
    // A sandbox made before its address is free gets another one.
    await until("a sandbox of the snapshot has the earlier address", async () => {
      const heir = await Sandbox.create(snapshotId, { ...server().options, ...LIFE });
      return (await sourceOf(heir)) === before;
    });
    return await booted.connect(LIFE);
  },
};

beforeAll(async () => {
  booted = await Sandbox.create({ ...server().options, ...LIFE });
  await giveProbes(booted);
  before = await sourceOf(booted);
});

describe.each(LIVES)("a sandbox with runsc, %s", (life) => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await lead[life]();
  });

  test("sends from the address of its slot, and reaches itself at the address inside every sandbox", async () => {
    const source = await sourceOf(sandbox);
    expect(source).toMatch(/^198\.1[89]\.\d+\.\d+$/);
    expect(source === before).toBe(life === "booted");
    const { stdout } = await sandbox.commands.run("getent ahostsv4 $(hostname) | head -1");
    expect(stdout).toStartWith(SANDBOX_ADDRESS);
    await expectReached(
      sandbox,
      [SANDBOX_ADDRESS, source].flatMap((own) => [`tcp ${own} 49983`, `icmp ${own} 0`]),
    );
  });

  test("resolves names, fetches pages, and reaches the outside over TCP, UDP and ICMP", async () => {
    await expectReached(sandbox, [...everyWay(OUTSIDE), `name ${OUTSIDE_NAME} 0`]);
    const { stdout } = await sandbox.commands.run(`curl -sS --connect-timeout 10 http://${OUTSIDE_NAME}/`);
    expect(stdout).toBe("hello from outside");
  });

  test("reaches no address that is closed to all sandboxes", async () => {
    expect(await reached(sandbox, MUST_BE_CLOSED.flatMap(everyWay))).toEqual([]);
  });

  test("is bound by its network rules", async () => {
    await sandbox.updateNetwork({ denyOut: [ALL_TRAFFIC], allowOut: ["allowed.test", "1.1.1.1"] });
    await expectReached(sandbox, [...everyWay("1.1.1.1"), "name allowed.test 0"]);
    expect(await reached(sandbox, [...everyWay(OUTSIDE), "name other.test 0"])).toEqual([]);
    const named = (name: string) => ({ address: SITES["other.test"], name, hosts: [name] });
    const [allowed, other] = await exchange(sandbox, [named("allowed.test"), named("other.test")]);
    expect(allowed).toEqual([`allowed.test@${SITES["allowed.test"]}`]);
    expect(other?.join()).not.toContain("@");
    await sandbox.updateNetwork({});
  });
});
