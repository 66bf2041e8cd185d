/** Request heads as they are forwarded with a rule's headers. */
import { expect, test } from "bun:test";
import { fuzzBytes } from "../../base/testing/fuzz.ts";
import { BadHead } from "../../http1/head-reader.ts";
import { RequestHeadReader } from "../../http1/request-head.ts";
import { smallSandbox } from "../testing/small-sandbox.ts";
import type { Flow } from "./flow.ts";
import { RuledHttp1, RuledSite } from "./rule-requests.ts";
import { RuleServer } from "./rule-server.ts";

const SET = [
  ["X-Key", "the value"],
  ["authorization", "Bearer the-value"],
] as const;

const rules = new RuleServer({ leafKeyPem: "", roots: null }, (question) => {
  if ("asked" in question) rules.answer(question.asked.question, { headers: SET });
});
const facts = {
  sandbox: smallSandbox(),
  rules,
  host: "a.test",
  pattern: "a.test",
  failure: undefined,
  isOver: () => false,
};
const flow = { upstream: { isClosed: false } } as unknown as Flow;

function parsed(bytes: Buffer) {
  try {
    return new RequestHeadReader({ maxBytes: 64 * 1024 }).take(Buffer.from(bytes));
  } catch (thrown) {
    if (thrown instanceof BadHead) return undefined;
    throw thrown;
  }
}

const head = (...lines: string[]) => Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1");

fuzzBytes("a forwarded head differs from the sandbox's only in the headers of the rule, which it has once", {
  seeds: [
    head("GET /a?b HTTP/1.1", "Host: a.test", "X-KEY: mine", "x-key: again", "Other: kept"),
    head("POST / HTTP/1.1", "Host: a.test:443", "Authorization:mine", "Content-Length: 12", "Empty:"),
    head("PUT https://a.test/ HTTP/1.1", "host: A.TEST", "Transfer-Encoding: chunked", "X-Key2: kept", "X-Ke: kept"),
    head("GET / HTTP/1.0", "Host: a.test", "Connection: keep-alive", "Name: \xe9\t"),
  ],
  async check(bytes) {
    const found = parsed(bytes);
    if (found === undefined) return;
    const prepared = await new RuledHttp1(new RuledSite(facts), flow).prepare(found.head, found.raw);
    if (!("upstream" in prepared)) return expect([400, 405, 421]).toContain(prepared[0]);
    const forwarded = parsed(prepared.head);
    if (forwarded === undefined) throw new Error("the forwarded head cannot be read");
    const linesOf = (head: typeof forwarded.head) => {
      const lines: string[] = [];
      head.headers.forEach((value, name) => void lines.push(`${name}: ${value}`));
      return lines;
    };
    const kept = linesOf(found.head).filter((line) => !/^(?:x[-_]key|authorization): /.test(line));
    expect(linesOf(forwarded.head)).toEqual(kept.concat("x-key: the value", "authorization: Bearer the-value"));
    const { method, target, minorVersion, bodyBytes } = found.head;
    expect(forwarded.head).toMatchObject({ method, target, minorVersion, bodyBytes });
    expect(forwarded.rest).toHaveLength(0);
  },
});

test("nothing is asked for a connection that has ended: its address may belong to another sandbox", async () => {
  let asked = 0;
  const counting = new RuleServer({ leafKeyPem: "", roots: null }, () => {
    asked += 1;
  });
  let isOver = false;
  const ruledDelayMs = () => {
    isOver = true;
    return 1;
  };
  const sandbox = Object.assign(smallSandbox(), { ruledDelayMs });
  const site = new RuledSite({ ...facts, sandbox, rules: counting, isOver: () => isOver });
  expect(await site.headersFor("GET", "a.test")).toEqual([502, 'header rule "a.test": the connection has ended']);
  expect(asked).toBe(0);
});

test("a request is a 502 when too many of its sandbox wait already", async () => {
  const sandbox = smallSandbox({ ruledBurst: 1, ruledPerSecond: 0.001 });
  for (const _ of [1, 2]) sandbox.ruledDelayMs();
  const why = 'header rule "a.test": too many requests of the sandbox wait already';
  expect(await new RuledSite({ ...facts, sandbox }).headersFor("GET", "a.test")).toEqual([502, why]);
});
