/** Which requests go before long bodies, and until when: on a real front, with those counted that are under way. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import http2 from "node:http2";
import { until } from "../work/testing/until.ts";
import { EdgeUnderTest } from "./testing/edge-under-test.ts";

let underWay = 0;
let begun = 0;
const shortRequests = {
  begin() {
    begun += 1;
    underWay += 1;
    return () => {
      underWay -= 1;
    };
  },
};
const edge = new EdgeUnderTest({ shortRequests });
afterAll(() => edge[Symbol.asyncDispose]());

let answer: () => void;
beforeEach(() => {
  const answered = Promise.withResolvers<Response>();
  answer = () => answered.resolve(new Response("management"));
  edge.management = () => answered.promise;
  begun = 0;
});
const isUnderWay = () => until("it is under way", () => underWay === 1);
const isOver = () => until("it is over", () => underWay === 0);

test("a request of the management interface goes first until it is answered", async () => {
  const asked = fetch(edge.url);
  await isUnderWay();
  answer();
  expect(await (await asked).text()).toBe("management");
  await isOver();
});

test("by HTTP/2, too", async () => {
  const session = http2.connect(`https://127.0.0.1:${edge.tlsPort}`, { rejectUnauthorized: false });
  const asked = session.request({ ":path": "/" });
  await isUnderWay();
  answer();
  asked.resume();
  await isOver();
  session.destroy();
});

test("until its client leaves", async () => {
  const left = new AbortController();
  const asked = fetch(edge.url, { signal: left.signal }).catch(() => "left");
  await isUnderWay();
  left.abort();
  await asked;
  await isOver();
});

test("a request of a sandbox is like any other", async () => {
  using service = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("sandbox") });
  const port = service.port ?? 0;
  expect(await (await edge.fetch(port, "/")).text()).toBe("sandbox");
  expect(begun).toBe(0);
});
