/**
 * What a sandbox reaches when only some names are allowed: web sites by Host header and by TLS server name, nothing
 * else. Each web site reports the address at which it was reached.
 *
 * Guards against a relay that connects to the sandbox's destination (hosts file, fronting), also to closed addresses
 * (names that lead inside), that judges only the first request of a connection (kept), that accepts a hello in pieces
 * as an allowed one (pieces), and a DNS relay that checks no rules (tunnels).
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { ALL_TRAFFIC, Sandbox } from "e2b";
import {
  INTERNET_PORTS,
  MUST_BE_CLOSED,
  NAME_SERVER,
  OTHER_NAME_SERVERS,
  OUTSIDE,
  OUTSIDE_IPV6,
  SITES,
} from "../../../src/host/testing/outer-network.ts";
import {
  type Exchange,
  exchange,
  expectReached,
  giveProbes,
  newMark,
  reached,
  timesAsked,
  timesSeen,
} from "../../support/egress/probing.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const NAMES_OF_CLOSED = [
  "metadata.test",
  "private.test",
  "lan.test",
  "loopback.test",
  "zero.test",
  "alias-of-private.test",
];
const ALLOWED = ["allowed.test", "*.wild.test", "alias.test", "front.test", "mixed.test", "both.test", "six.test"];
const ALLOWED_SITE = SITES["allowed.test"];
const OTHER_SITE = SITES["other.test"];
/** On which a web site could be reached without a name. */
const { http, https, quic, echo, dns, dnsTls } = INTERNET_PORTS;

let sandbox: Sandbox;
beforeAll(async () => {
  const allowOut = [...ALLOWED, ...NAMES_OF_CLOSED, "*.rebind.test"];
  const network = { allowOut, denyOut: [ALL_TRAFFIC] };
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000, network });
  await giveProbes(sandbox);
});

/** The same by HTTP and by TLS. */
const bothWays = (address: string, name: string): Exchange[] => [
  { address, hosts: [name] },
  { address, name, hosts: [name] },
];

async function expectNothing(exchanges: readonly Exchange[]): Promise<void> {
  const responses = await exchange(sandbox, exchanges);
  expect(responses.flat().filter((text) => text.includes("@") || text === "200")).toEqual([]);
}

describe("names that are allowed", () => {
  test.each([
    ["itself", "allowed.test", ALLOWED_SITE],
    ["in other letters", "AlLoWeD.TeSt", ALLOWED_SITE],
    ["below a wildcard", "a.wild.test", SITES["wild.test"]],
    ["deep below it", "c.b.a.wild.test", SITES["wild.test"]],
    ["an alias of others", "alias.test", ALLOWED_SITE],
    ["of one open and one closed address", "mixed.test", ALLOWED_SITE],
    ["of both IPv4 and IPv6", "both.test", ALLOWED_SITE],
  ])("are reached by HTTP and TLS: %s", async (_, name, address) => {
    const responses = await exchange(sandbox, bothWays(name, name));
    expect(responses).toEqual(Array(2).fill([`${name}@${address}`]));
  });

  test("are checked on each request of a kept connection", async () => {
    const mark = newMark();
    const hosts = ["allowed.test", "front.test", "allowed.test", "other.test"];
    const [responses = []] = await exchange(sandbox, [{ address: "allowed.test", hosts, path: "/reached" }]);
    expect(responses.slice(0, 3).filter((text) => text.startsWith("allowed.test@"))).not.toEqual([]);
    expect(responses.filter((text) => text.startsWith("other.test"))).toEqual([]);
    const second = `GET /first HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET /${mark} HTTP/1.1\r\nHost: other.test\r\n\r\n`;
    await exchange(sandbox, [{ address: "allowed.test", hosts: ["-"], raw: second }]);
    expect(await timesSeen(`/${mark}`)).toBe(0);
  });

  test("are reached with a hello in small and slow pieces, others are not", async () => {
    const inPieces = (name: string): Exchange[] =>
      bothWays(ALLOWED_SITE, name).flatMap((way) => [
        { ...way, piece: 1 },
        { ...way, piece: 97, pause: 0.02 },
      ]);
    expect(await exchange(sandbox, inPieces("allowed.test"))).toEqual(Array(4).fill([`allowed.test@${ALLOWED_SITE}`]));
    await expectNothing(inPieces("other.test"));
  });
});

describe("names that are not allowed", () => {
  test("are not reached, neither by name nor at their address", async () => {
    const names = ["other.test", "wild.test", "hidden.test", "allowed.test.example", "xallowed.test", "test"];
    await expectNothing(names.flatMap((name) => [...bothWays(name, name), ...bothWays(OTHER_SITE, name)]));
  });

  test("are not reached at the address of an allowed name", async () => {
    await expectNothing([...bothWays(ALLOWED_SITE, "other.test"), ...bothWays(SITES["front.test"], "hidden.test")]);
  });

  test("are not reached by two Hosts, an absolute target, or a folded Host", async () => {
    const mark = newMark();
    const requests = [
      `GET /${mark} HTTP/1.1\r\nHost: allowed.test\r\nHost: other.test\r\n\r\n`,
      `GET http://other.test/${mark} HTTP/1.1\r\nHost: allowed.test\r\n\r\n`,
      `GET /${mark} HTTP/1.1\r\nX: y\r\n Host: allowed.test\r\nHost: other.test\r\n\r\n`,
      `GET /${mark} HTTP/1.1\r\nHost : allowed.test\r\n\r\n`,
      `GET /${mark} HTTP/1.1\r\nHost: allowed.test@other.test\r\n\r\n`,
      `GET /${mark} HTTP/1.1\r\n\r\n`,
      `POST /x HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /${mark} HTTP/1.1\r\nHost: other.test\r\n\r\n`,
    ];
    await exchange(
      sandbox,
      requests.map((raw) => ({ address: ALLOWED_SITE, hosts: ["-"], raw })),
    );
    expect(await timesSeen(`/${mark}`)).toBe(0);
  });

  test("stay out of reach with a hosts file: the relay resolves names itself", async () => {
    await sandbox.commands.run(`echo '${OTHER_SITE} allowed.test' >> /etc/hosts`, { user: "root" });
    try {
      expect((await sandbox.commands.run("getent hosts allowed.test")).stdout).toContain(OTHER_SITE);
      const responses = await exchange(sandbox, bothWays("allowed.test", "allowed.test"));
      expect(responses).toEqual(Array(2).fill([`allowed.test@${ALLOWED_SITE}`]));
    } finally {
      await sandbox.commands.run("sed '/allowed.test/d' /etc/hosts > /tmp/hosts && cat /tmp/hosts > /etc/hosts", {
        user: "root",
      });
    }
  });

  /**
   * A limit of the relay: without breaking TLS it cannot know the host of a request inside. The request still goes to
   * the allowed address.
   */
  test("as a Host inside the TLS of an allowed name lead only to that name's address", async () => {
    const responses = await exchange(sandbox, [
      { address: OTHER_SITE, name: "allowed.test", hosts: ["other.test"] },
      { address: SITES["hidden.test"], name: "front.test", hosts: ["hidden.test"] },
    ]);
    expect(responses).toEqual([[`other.test@${ALLOWED_SITE}`], [`hidden.test@${SITES["front.test"]}`]]);
  });
});

describe("without a name", () => {
  test("an address is not reached, neither by TLS without a name nor as a name", async () => {
    await expectNothing(
      [OUTSIDE, OTHER_SITE, ALLOWED_SITE, "8.8.8.8"].flatMap((address) => [
        ...bothWays(address, address),
        { address, name: "", hosts: [address] },
        { address, name: "", hosts: ["allowed.test"] },
      ]),
    );
  });

  test("other protocols get no connection on the ports of HTTP and TLS", async () => {
    const mark = newMark();
    const raw = [mark, "\x16\x03\x01\x00\x05hello", "SSH-2.0-x", "\0\0\0\0"];
    const exchanges = raw.flatMap((text) => [http, https].map((port) => ({ port, raw: `${text}\r\n\r\n` })));
    await expectNothing(exchanges.map((one) => ({ address: ALLOWED_SITE, hosts: ["-"], ...one })));
  });

  test("no other port, UDP, ping, IPv6 or foreign name server answers", async () => {
    const addresses = [ALLOWED_SITE, OUTSIDE, ...OTHER_NAME_SERVERS];
    const probes = addresses.flatMap((address) => [
      `tcp ${address} ${echo}`,
      `udp ${address} ${echo}`,
      `udp ${address} ${quic}`,
      `icmp ${address} 0`,
      `dot ${address} ${dnsTls}`,
      `doh ${address} ${https}`,
    ]);
    const six = [`tcp ${OUTSIDE_IPV6} ${http}`, `udp ${OUTSIDE_IPV6} ${echo}`, `icmp ${OUTSIDE_IPV6} 0`];
    expect(await reached(sandbox, [...probes, ...six])).toEqual([]);
    await expectNothing(bothWays("six.test", "six.test"));
  });
});

describe("a name with a private address", () => {
  test.each(NAMES_OF_CLOSED)("is not reached: %s", async (name) => {
    await expectNothing([...bothWays(name, name), ...bothWays(OUTSIDE, name), ...bothWays("169.254.169.254", name)]);
  });

  test("in a second DNS answer is not reached", async () => {
    const names = Array.from({ length: 8 }, () => `${newMark()}.rebind.test`);
    // DNS gives the sandbox the open or the closed address; then it goes to the open one by itself, twice.
    const exchanges = names.flatMap((name) => [...bothWays(name, name), ...bothWays(OUTSIDE, name)]);
    const responses = (await exchange(sandbox, [...exchanges, ...exchanges])).flat();
    expect(responses.filter((text) => MUST_BE_CLOSED.some((address) => text.endsWith(`@${address}`)))).toEqual([]);
    expect(responses.filter((text) => text.endsWith(`@${ALLOWED_SITE}`))).not.toEqual([]);
    for (const name of names) expect(await timesAsked(name)).toBeGreaterThan(1);
  });
});

describe("DNS queries", () => {
  test("for allowed names are answered, whichever server is asked", async () => {
    for (const server of [NAME_SERVER, ...OTHER_NAME_SERVERS, ALLOWED_SITE, "169.254.0.22"]) {
      const { stdout } = await sandbox.commands.run(`python3 /tmp/ask.py ${server} deep.wild.test allowed.test`);
      expect({ server, stdout }).toEqual({
        server,
        stdout: "deep.wild.test udp 0 1 tcp 0 1\nallowed.test udp 0 1 tcp 0 1\n",
      });
    }
  });

  test("for other names are rejected and reach no server", async () => {
    const tunnel = newMark();
    const names = [`${tunnel}.tunnel.example`, `${tunnel}.allowed.test`, `${tunnel}.test`];
    for (const server of [NAME_SERVER, ...OTHER_NAME_SERVERS, "169.254.0.22"]) {
      const { stdout } = await sandbox.commands.run(`python3 /tmp/ask.py ${server} ${names.join(" ")}`);
      expect({ server, stdout }).toEqual({ server, stdout: names.map((name) => `${name} udp 5 0 tcp 5 0\n`).join("") });
    }
    for (const name of names) expect(await timesAsked(name)).toBe(0);
    // The same name is counted when it is let through.
    await fetch(`http://${OUTSIDE}/`);
    expect(await timesAsked("deep.wild.test")).toBeGreaterThan(0);
  });
});

test("with a star every name is reached, but no bare address", async () => {
  await sandbox.updateNetwork({ allowOut: ["*"], denyOut: [ALL_TRAFFIC] });
  const responses = await exchange(sandbox, bothWays("other.test", "other.test"));
  expect(responses).toEqual(Array(2).fill([`other.test@${OTHER_SITE}`]));
  await expectNothing([...bothWays(OTHER_SITE, OTHER_SITE), { address: OTHER_SITE, name: "", hosts: ["-"] }]);
  await expectReached(sandbox, [`dns ${NAME_SERVER} ${dns}`]);
  expect(await reached(sandbox, [`tcp ${OTHER_SITE} ${echo}`, `udp ${OTHER_SITE} ${quic}`])).toEqual([]);
});
