/**
 * What a sandbox tries to get the value of a header rule to another site, or to itself. The tests' internet remembers
 * the headers of each request, so a value that reached a wrong site is found there.
 *
 * Guards against a relay that believes the sandbox's DNS, Host header or framing, that checks only the first request of
 * a connection, or that talks to a site whose certificate is for another name.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { Sandbox, Secret } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { RULE_CERTIFICATES_BURST } from "../../../src/egress/rule-certificates.ts";
import { SITES } from "../../../src/host/testing/outer-network.ts";
import { type Exchange, exchange, giveProbes, newMark, receivedFor } from "../../support/egress/probing.ts";
import { sandlot, sandlotKeys } from "../../support/sandlot-keys.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const LIFE = { timeoutMs: 600_000 };
const NAMES = 3_000;
const server = sharedServer();
const VALUE = `value-${crypto.randomUUID()}`;
const transform = { headers: { "X-Key": Secret.fill("attacked") } };
const network = {
  rules: Object.fromEntries(
    ["allowed.test", "*.wild.test", "private.test", "metadata.test"].map((name) => [name, [{ transform }]]),
  ),
};
/** Its site at the address that the sandbox chose. */
const RULED = { address: "allowed.test", name: "allowed.test" };

let sandbox: Sandbox;
beforeAll(async () => {
  await Secret.create("attacked", VALUE, server().options);
  sandbox = await Sandbox.create({ ...server().options, ...LIFE, network });
  await giveProbes(sandbox);
});

async function run(command: string, from = sandbox): Promise<string> {
  return (await from.commands.run(`${command} 2>&1 || true`, { timeoutMs: 300_000 })).stdout;
}

/** The values of the rule's header in each request that reached a site. */
async function keysFor(mark: string): Promise<string[][]> {
  const received = await receivedFor(mark);
  return received.map(({ headers }) => headers.flatMap(([name, value]) => (name === "x-key" ? [value] : [])));
}

/** Makes the exchange with a new mark as its path, and returns responses and what reached a site. */
async function attempt(given: Partial<Exchange>): Promise<{ responses: string[]; keys: string[][] }> {
  const mark = newMark();
  const raw = given.raw?.replaceAll("MARK", `/keep/${mark}`);
  const whole = {
    ...RULED,
    hosts: ["allowed.test"],
    path: `/keep/${mark}`,
    ...given,
    ...(raw === undefined ? {} : { raw }),
  };
  const [responses = []] = await exchange(sandbox, [whole]);
  return { responses, keys: await keysFor(mark) };
}

/** Each sandbox of this file can use its rule, after whatever it tried. */
async function expectUsable(from = sandbox): Promise<void> {
  const mark = newMark();
  const response = await run(`curl -sS -m 30 https://allowed.test/keep/${mark}`, from);
  expect([response, await keysFor(mark)]).toEqual(["kept 1", [[VALUE]]]);
}

describe("the value of a header rule reaches no other site", () => {
  test("by a Host that is not the name of the connection", async () => {
    for (const host of [
      "other.test",
      "allowed.test:8443",
      "allowed.test.",
      "allowed.test@other.test",
      "",
      "*.allowed.test",
    ]) {
      const { responses, keys } = await attempt({ hosts: [host] });
      expect([host, keys]).toEqual([host, []]);
      expect(responses[0]).not.toBe("200");
    }
    await expectUsable();
  });

  test("by a second request on the connection", async () => {
    const { responses, keys } = await attempt({ hosts: ["allowed.test", "other.test", "allowed.test"] });
    expect(responses[0]).toBe("200");
    expect(keys).toEqual([[VALUE]]);
    const { keys: pipelined } = await attempt({
      hosts: ["-"],
      raw: "GET MARK HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET MARK HTTP/1.1\r\nHost: other.test\r\n\r\n",
    });
    expect(pipelined.length).toBeLessThan(2);
  });

  test("by a request that hides another one", async () => {
    const hidden = "GET MARK HTTP/1.1\r\nHost: other.test\r\n\r\n";
    const framings = [
      `Content-Length: ${hidden.length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
      `Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
      `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${hidden}`,
      `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${hidden}`,
      `Content-Length: +${hidden.length}\r\n\r\n${hidden}`,
    ];
    for (const framing of framings) {
      const { responses, keys } = await attempt({
        hosts: ["-"],
        raw: `POST /hiding HTTP/1.1\r\nHost: allowed.test\r\n${framing}`,
      });
      expect([framing, responses[0] === "200", keys]).toEqual([framing, false, []]);
    }
    await expectUsable();
  });

  test("by DNS or a hosts file that leads elsewhere: the relay resolves the name itself", async () => {
    const mark = newMark();
    await exchange(sandbox, [
      { ...RULED, address: SITES["other.test"], hosts: ["allowed.test"], path: `/keep/${mark}` },
    ]);
    expect((await receivedFor(mark)).map(({ address }) => address)).toEqual([SITES["allowed.test"]]);
  });

  test("by a name whose site has a certificate for other names", async () => {
    const [mark, name] = [newMark(), "not.certified.wild.test"];
    const response = await run(`curl -sS -i -m 30 https://${name}/keep/${mark}`);
    expect(response).toMatch(/^HTTP\/\S+ 502/);
    expect(await keysFor(mark)).toEqual([]);
  });

  test("by a redirect to another name", async () => {
    const mark = newMark();
    const url = `https://allowed.test/?redirect=https://other.test/keep/${mark}`;
    expect(await run(`curl -sS -k -L -m 30 '${url}'`)).toBe("kept 1");
    expect(await keysFor(mark)).toEqual([[]]);
  });

  test("by a name that leads to a closed address", async () => {
    for (const name of ["private.test", "metadata.test"]) {
      const mark = newMark();
      const response = await run(`curl -sS -i -m 30 https://${name}/keep/${mark}`);
      expect([name, response.startsWith("HTTP/1.1 200"), await keysFor(mark)]).toEqual([name, false, []]);
    }
  });
});

describe("the value of a header rule never comes back", () => {
  test("from a site that echoes requests: TRACE is refused", async () => {
    for (const method of ["TRACE", "trace", "TRACK"]) {
      const response = await run(`curl -sS -i -m 30 -X ${method} https://allowed.test/headers`);
      expect([method, /^HTTP\/\S+ 4\d\d/.test(response), response.includes(VALUE)]).toEqual([method, true, false]);
    }
  });

  test("beside a header of the same name that the sandbox sends", async () => {
    const raw = "GET MARK HTTP/1.1\r\nHost: allowed.test\r\nx-key: a\r\nX-KEY: b\r\nConnection: x-key\r\n\r\n";
    const { keys } = await attempt({ hosts: ["-"], raw });
    expect(keys.flat().filter((key) => key !== VALUE)).toEqual([]);
  });

  test("with line breaks: the request fails", async () => {
    const { status } = await server().call("POST", "/secrets", { name: "broken", value: `${VALUE}\r\nX-Added: yes` });
    if (status === 400) return;
    const broken = await Sandbox.create({
      ...server().options,
      ...LIFE,
      network: { rules: { "allowed.test": [{ transform: { headers: { "X-Key": Secret.fill("broken") } } }] } },
    });
    const mark = newMark();
    const response = await run(`curl -sS -i -m 30 https://allowed.test/keep/${mark}`, broken);
    expect(response).toMatch(/^HTTP\/\S+ 502/);
    expect([response.includes(VALUE), await receivedFor(mark)]).toEqual([false, []]);
    await broken.kill();
  });
});

test("a rule of another team that names the secret gets no value", async () => {
  await sandlot(server(), "teams", "create", "rule-thieves");
  const made = await sandlotKeys(server(), "create", "thief", "--team", "rule-thieves");
  const [key = ""] = /e2b_\w+/.exec(made) ?? [];
  const other = await Sandbox.create({ ...server().options, apiKey: key, ...LIFE, network });
  const mark = newMark();
  const response = await run(`curl -sS -i -m 30 https://allowed.test/keep/${mark}`, other);
  expect(response).toMatch(/^HTTP\/\S+ 502/);
  expect(await receivedFor(mark)).toEqual([]);
  await other.kill();
});

test.skipIf(!LONG)(
  "many names below a wildcard exhaust the certificates of this sandbox, and of no other",
  async () => {
    const command = "curl -sS -m 60 -o /dev/null -w '%{http_code}\\n' https://nN.wild.test/";
    const codes = (await run(`seq ${NAMES} | xargs -P 8 -I N ${command}`)).split("\n");
    expect(codes.filter((code) => code === "200").length).toBeGreaterThanOrEqual(RULE_CERTIFICATES_BURST);
    expect(codes.filter((code) => code === "000").length).toBeGreaterThan(0);
    await expectUsable();
    const other = await Sandbox.create({ ...server().options, ...LIFE, network });
    expect(await run(`curl -sS -m 30 https://another.wild.test/`, other)).toBe("hello from outside");
    await other.kill();
  },
  600_000,
);

test("an open connection breaks with a pause and with the relay, and the next request has the header", async () => {
  const open = await Sandbox.create({ ...server().options, ...LIFE, network });
  const drip = () =>
    open.commands.run("curl -sSN https://allowed.test/drip > /tmp/drip 2>&1; echo $? > /tmp/ended", {
      background: true,
    });
  const dripping = () =>
    until("the site sends", async () => (await run("test -s /tmp/drip && echo yes", open)).includes("yes"));
  const ended = () => until("the connection is closed", async () => /^[1-9]/.test(await run("cat /tmp/ended", open)));

  await drip();
  await dripping();
  await open.pause();
  await open.connect(LIFE);
  await ended();
  await expectUsable(open);

  await run("rm -f /tmp/drip /tmp/ended", open);
  await drip();
  await dripping();
  for (const pid of relaysOf(server().pid)) process.kill(pid, "SIGKILL");
  await ended();
  await until("the relay is back", async () =>
    (await run("curl -sS -m 30 https://allowed.test/", open)).startsWith("hello"),
  );
  await expectUsable(open);
  await open.kill();
});

/** Pids of the relay's processes of this server. */
function relaysOf(pid: number): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((each) => {
      if (!(each > 0)) return false;
      try {
        const status = readFileSync(`/proc/${each}/status`, "utf8");
        return status.includes(`\nPPid:\t${pid}\n`) && readFileSync(`/proc/${each}/cmdline`, "utf8").includes("relay");
      } catch {
        // It has ended.
        return false;
      }
    });
}
