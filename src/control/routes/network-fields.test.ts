/** The network options of a sandbox: which are valid, and the errors for others. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ControlFixture } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
beforeAll(async () => {
  fixture = await ControlFixture.open();
  fixture.host.names.set("inside.test", ["10.1.2.3"]);
});
afterAll(() => fixture[Symbol.asyncDispose]());

const ALL = "0.0.0.0/0";
const PORT = `\${PORT}`;
const long = "a".repeat(300);
const many = Array.from({ length: 1001 }, (_, at) => `1.1.${at >> 8}.${at & 255}`);
const proxied = (address: unknown, more = {}) => ({ egressProxy: { address, ...more } });

/** Refused egress options. The message begins with the path of the field. */
const refusedOut: [fields: Record<string, unknown>, field: string, problem: string][] = [
  [{ denyOut: ["example.com"] }, "denyOut.0", '"example.com" is not an address or range'],
  [{ denyOut: ["1.1.1.1", "*"] }, "denyOut.1", "names cannot be denied"],
  [{ denyOut: ["0.0.0.0"] }, "denyOut.0", '"0.0.0.0" begins with the unspecified address'],
  [{ denyOut: ["0.0.0.0/8"] }, "denyOut.0", "write exactly 0.0.0.0/0"],
  [{ denyOut: ["::"] }, "denyOut.0", "unspecified"],
  [{ denyOut: ["0:0:0:0:0:0:0:0/64"] }, "denyOut.0", "unspecified"],
  [{ denyOut: ["1.1.1.1/33"] }, "denyOut.0", "not an address"],
  [{ denyOut: ["::ffff:1.1.1.1"] }, "denyOut.0", "write the IPv4 address"],
  [{ denyOut: [" 1.1.1.1"] }, "denyOut.0", "not an address"],
  [{ denyOut: [""] }, "denyOut.0", '"" is not an address'],
  [{ denyOut: [long] }, "denyOut.0", `"${"a".repeat(64)}…" must have at most 253 characters, got 300`],
  [{ denyOut: many }, "denyOut", 'must have at most 1000 entries, got 1001; "1.1.3.232" is too many'],
  [{ allowOut: ["0.0.0.0"] }, "allowOut.0", "unspecified"],
  [{ allowOut: [...many, 7] }, "allowOut.1001", "must be a string, got 7"],
  [{ allowOut: many }, "allowOut", "must have at most 1000 entries, got 1001"],
  [
    { allowOut: ["1.1.1.1", "a.test", `${long}.test`], denyOut: [ALL] },
    "allowOut.2",
    "at most 253 characters, got 305",
  ],
  [{ allowOut: ["https://a.test"], denyOut: [ALL] }, "allowOut.0", "write neither scheme nor port"],
  [{ allowOut: ["a.test:443"], denyOut: [ALL] }, "allowOut.0", "or name such as example.com"],
  [{ allowOut: ["a.*.test"], denyOut: [ALL] }, "allowOut.0", "range or name"],
  [{ allowOut: ["2130706433"], denyOut: [ALL] }, "allowOut.0", "range or name"],
  [{ allowOut: ["1.1.1.1/99"], denyOut: [ALL] }, "allowOut.0", "not an address"],
  [{ allowOut: ["a.test"] }, "allowOut", 'has a name, "a.test", which needs "0.0.0.0/0" in denyOut'],
  [{ allowOut: ["*"], denyOut: ["1.1.1.1/0"] }, "allowOut", "needs"],
  [proxied("p.test"), "egressProxy.address", "must be host:port"],
  [proxied("socks5://p.test:1080"), "egressProxy.address", "without scheme or user"],
  [proxied("ann:secret@p.test:1080"), "egressProxy.address", "must be host:port"],
  [proxied("p.test:0"), "egressProxy.address", "port from 1 to 65535"],
  [proxied("p.test:65536"), "egressProxy.address", "port from 1 to 65535"],
  [proxied("*.test:1080"), "egressProxy.address", "must be host:port"],
  [proxied("[2001:db8::1]:1080"), "egressProxy.address", "a name or an IPv4 address"],
  [proxied("0x7f000001:1080"), "egressProxy.address", "must be host:port"],
  [proxied("127.0.0.1:1080"), "egressProxy.address", "leads to 127.0.0.1, which is closed to every sandbox"],
  [proxied("169.254.169.254:80"), "egressProxy.address", "closed"],
  [proxied("inside.test:1080"), "egressProxy.address", "leads to 10.1.2.3, which is closed to every sandbox"],
  [proxied(`${long}:1080`), "egressProxy.address", "must be host:port"],
  [{ egressProxy: {} }, "egressProxy.address", "must be a string, got nothing"],
  [proxied("p.test:1080", { password: "x" }), "egressProxy.password", "has no effect without username"],
  [proxied("p.test:1080", { username: "é".repeat(128) }), "egressProxy.username", "at most 255 bytes, got 256"],
  [proxied("p.test:1080", { tls: { enabled: true } }), "egressProxy.tls", "is not supported"],
];

const ruled = (headers: unknown, name = "a.test") => ({ rules: { [name]: [{ transform: { headers } }] } });
const rule = [{ transform: { headers: { A: "b" } } }];
const headersMany = Object.fromEntries(Array.from({ length: 21 }, (_, at) => [`X-${at}`, "v"]));
const LONG_NAME = `${"a".repeat(50)}.${"b".repeat(50)}.${"c".repeat(30)}`;
const placeholder = `\${e2b.secrets.a}`;
const OWN = [
  "Host",
  "connection",
  "Content-Length",
  "Transfer-Encoding",
  "TE",
  "Trailer",
  "Upgrade",
  "Keep-Alive",
  "Expect",
];

refusedOut.push(
  [{ rules: [] }, "rules", "must be an object, got an array"],
  [{ rules: { "a.test": {} } }, "rules.a.test", "must be an array, got an object"],
  [{ rules: { "a.test": [{}, {}] } }, "rules.a.test", "must have at most 1 entry, got 2"],
  [ruled([]), "rules.a.test.0.transform.headers", "must be an object, got an array"],
  [ruled({ A: 1 }), "rules.a.test.0.transform.headers.A", "must be a string, got 1"],
  [ruled({}, "*"), "rules.*", "is not a host name"],
  [ruled({}, "https://a.test"), "rules.https://a.test", "write neither scheme nor port"],
  [ruled({}, "a.*.test"), "rules.a.*.test", "is not a host name"],
  [ruled({}, "192.0.2.1"), "rules.192.0.2.1", "is not a host name"],
  [ruled({}, LONG_NAME), "rules", "must have names of at most 128 characters, got one of 132"],
  [{ rules: { "A.test": rule, "a.test.": rule } }, "rules.a.test.", 'has a rule already, as "a.test"'],
  [
    { rules: Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`${at}.test.example`, rule])) },
    "rules",
    "at most 10 entries, got 11",
  ],
  [ruled(headersMany), "rules.a.test.0.transform.headers", "must have at most 20 entries, got 21"],
  [ruled({ "A B": "c" }), "rules.a.test.0.transform.headers.A B", "is not a name of a header"],
  [ruled({ ":path": "c" }), "rules.a.test.0.transform.headers.:path", "is not a name of a header"],
  [
    ruled({ ["X".repeat(65)]: "c" }),
    `rules.a.test.0.transform.headers.${"X".repeat(65)}`,
    "at most 64 characters, got 65",
  ],
  [ruled({ A: "1", a: "2" }), "rules.a.test.0.transform.headers.a", "is named twice"],
  [ruled({ A: "planted\r\nX: y" }), "rules.a.test.0.transform.headers.A", "must not hold control characters"],
  [ruled({ A: "planted\0" }), "rules.a.test.0.transform.headers.A", "must not hold control characters"],
  [ruled({ A: "planted…" }), "rules.a.test.0.transform.headers.A", "beyond Latin-1"],
  [ruled({ A: "s".repeat(2049) }), "rules.a.test.0.transform.headers.A", "at most 2048 characters, got 2049"],
  [ruled({ A: `\${e2b.secrets.}` }), "rules.a.test.0.transform.headers.A", "has a malformed placeholder"],
  [ruled({ A: `\${e2b.secrets.a` }), "rules.a.test.0.transform.headers.A", "has a malformed placeholder"],
  [ruled({ A: `\${e2b.other.a}` }), "rules.a.test.0.transform.headers.A", "has a malformed placeholder"],
  [
    ruled({ A: placeholder.repeat(60), B: placeholder.repeat(41) }),
    "rules.a.test.0.transform.headers",
    "at most 100 placeholders together, got 101",
  ],
  ...OWN.map((name): (typeof refusedOut)[number] => [
    ruled({ [name]: "x" }),
    `rules.a.test.0.transform.headers.${name}`,
    "only the server itself sets",
  ]),
);

const refusedIn: typeof refusedOut = [
  ...["a b", "a\r\nX: y", "bücher.test", "a/b", "a@b", "a:b", "a:0", "a:65536", "[::1", `a:1${PORT}`, `a\${port}`].map(
    (maskRequestHost): (typeof refusedOut)[number] => [
      { maskRequestHost },
      "maskRequestHost",
      "must be a host in ASCII",
    ],
  ),
  [{ maskRequestHost: "a".repeat(262) }, "maskRequestHost", "must have at most 261 characters, got 262"],
  [{ httpsPorts: [443, 443] }, "httpsPorts", "must name each port once"],
  [{ httpsPorts: [443, 49983] }, "httpsPorts.1", "must not be 49983, the port of the runtime"],
  [{ httpsPorts: [0] }, "httpsPorts.0", "must be at least 1, got 0"],
  [{ httpsPorts: [65536] }, "httpsPorts.0", "must be at most 65535, got 65536"],
  [
    { httpsPorts: Array.from({ length: 129 }, (_, at) => at + 1) },
    "httpsPorts",
    "must have at most 128 entries, got 129",
  ],
  [{ allowPublicTraffic: "no" }, "allowPublicTraffic", "must be a boolean, got a string"],
];

const taken: [sent: Record<string, unknown>, shown: Record<string, unknown>][] = [
  [{}, {}],
  [{ allowOut: [], denyOut: [], egressProxy: null, rules: {}, httpsPorts: [], maskRequestHost: "" }, {}],
  [{ allowPublicTraffic: false }, { allowPublicTraffic: false }],
  [{ allowOut: ["1.1.1.1", "10.1.2.3/8", "2001:db8::/32", "::/0", ALL] }, {}],
  [{ allowOut: ["Example.COM", "*.example.com.", "*", "xn--bcher-kva.test"], denyOut: ["9.9.9.9", ALL] }, {}],
  [{ denyOut: many.slice(1) }, {}],
  ...["localhost", `localhost:${PORT}`, `${PORT}.a_b.test`, "[::1]:8080", "A-1.test:65535"].map(
    (maskRequestHost): (typeof taken)[number] => [{ maskRequestHost }, {}],
  ),
  [{ httpsPorts: [1, 443, 65535] }, {}],
  [
    {
      rules: { "Api.Test.": [{ transform: { headers: { A: `B ${placeholder}`, c: "literal $D" } } }], "*.b.test": [] },
    },
    { rules: { "api.test": [{ transform: { headers: { A: `B ${placeholder}`, c: "literal $D" } } }], "*.b.test": [] } },
  ],
  [
    {
      rules: { "a.test": [{ more: 1 }], "b.test": [{ transform: null }], "c.test": [{ transform: { headers: null } }] },
    },
    { rules: { "a.test": [{}], "b.test": [{}], "c.test": [{ transform: {} }] } },
  ],
  [proxied("P.Test.:1080"), { egressProxy: { address: "p.test:1080" } }],
  [
    proxied("192.0.2.7:1080", { username: "ann", password: "hunter2", tls: { enabled: false } }),
    { egressProxy: { address: "192.0.2.7:1080", username: "ann" } },
  ],
];

for (const path of ["/sandboxes", "/v2/sandboxes"]) {
  describe(`POST ${path}`, () => {
    test.each([...refusedOut, ...refusedIn])("network %j: %s %s", async (network, field, problem) => {
      const before = fixture.host.running.length;
      const { status, body } = await fixture.call("POST", path, { templateID: "base", network });
      expect(status).toBe(400);
      expect(body.message).toStartWith(`validation error: network.${field} `);
      expect(body.message).toContain(problem);
      expect(body.message).not.toMatch(/secret@|hunter2|planted/);
      expect(fixture.host.running).toHaveLength(before);
    });

    test.each(taken)("network %j is accepted, and shown as it was sent", async (network, shown) => {
      const { status, body } = await fixture.call("POST", path, { templateID: "base", network, timeout: 3600 });
      expect(status).toBe(201);
      const { maskRequestHost, egressProxy: _, rules: __, ...sent } = network;
      const detail = (await fixture.call("GET", `/sandboxes/${body.sandboxID}`)).body;
      const mask = maskRequestHost ? { maskRequestHost } : {};
      expect<unknown>(detail.network).toEqual({ allowPublicTraffic: true, ...sent, ...mask, ...shown });
      await fixture.call("DELETE", `/sandboxes/${body.sandboxID}`);
    });
  });
}

describe("PUT /sandboxes/{sandboxID}/network", () => {
  const put = (id: string, body: unknown) => fixture.call("PUT", `/sandboxes/${id}/network`, body);

  test.each(refusedOut)("%j: %s %s", async (fields, field, problem) => {
    const { status, body } = await put("i0", fields);
    expect(status).toBe(400);
    expect(body.message).toStartWith(`validation error: ${field} `);
    expect(body.message).toContain(problem);
  });

  test("a missing body is rejected", async () => {
    expect((await put("i0", undefined)).body.message).toContain("no body");
  });

  test.each(taken)("%j is accepted, and shown as it was sent", async (fields, shown) => {
    const id = await fixture.create({ timeout: 3600 });
    const { allowOut, denyOut, egressProxy } = fields;
    expect((await put(id, { ...fields, rules: {} })).status).toBe(204);
    const { egressProxy: proxy } = shown;
    const detail = (await fixture.call("GET", `/sandboxes/${id}`)).body;
    const sent = Object.entries({ allowOut, denyOut, egressProxy: egressProxy && proxy }).filter(([, value]) => value);
    expect<unknown>(detail.network).toEqual({ allowPublicTraffic: true, ...Object.fromEntries(sent) });
    await fixture.call("DELETE", `/sandboxes/${id}`);
  });
});
