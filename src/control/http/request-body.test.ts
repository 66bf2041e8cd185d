/** Bounds of a JSON body from any sender: bytes, values, levels, time, memory. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { fuzzText } from "../../base/testing/fuzz.ts";
import { Fault } from "../../contract/fault.ts";
import { JSON_DEPTH_MAX } from "../../contract/limits.ts";
import {
  BODIES_MAX_BYTES,
  BODIES_PER_TEAM_MAX_BYTES,
  BODY_BYTES_PER_TEAM_BURST,
  BODY_BYTES_PER_TEAM_PER_SECOND,
} from "../budgets/body-budgets.ts";
import { REQUEST_LARGE_BODY_MAX_BYTES } from "../limits.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { REQUEST_BODY_MAX_BYTES } from "./dispatch.ts";
import { JsonBounds, REQUEST_VALUES_MAX } from "./json-bounds.ts";
import { REQUEST_BODY_MS } from "./request-body.ts";

const MIB = 1024 * 1024;

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** A body that comes piece by piece, as the test sends them. */
function slowBody(path: string, apiKey = fixture.apiKey, announced?: number) {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const request = new Request(`http://localhost${path}`, {
    method: "POST",
    headers: { "X-API-Key": apiKey },
    body: readable,
  });
  if (announced !== undefined) request.headers.set("Content-Length", String(announced));
  let status = 0;
  const answered = fixture.control.handle(request).then(async (response) => {
    status = response.status;
    const { message } = (await response.json()) as { message: string };
    return { status, message, retryAfter: response.headers.get("retry-after") };
  });
  return {
    answered,
    get isAnswered() {
      return status !== 0;
    },
    /** Resolves when the reader has taken the piece or has given up. */
    send: (piece: string | Uint8Array) =>
      writer.write(typeof piece === "string" ? new TextEncoder().encode(piece) : piece).catch(() => undefined),
    end: () => writer.close().catch(() => undefined),
  };
}

const padded = (text: string, bytes: number) => text + " ".repeat(bytes - text.length);

describe("a body", () => {
  test("has at most 1 MiB by default, with or without a Content-Length", async () => {
    const path = `/sandboxes/${await fixture.create()}/timeout`;
    expect((await fixture.call("POST", path, padded('{"timeout":9}', REQUEST_BODY_MAX_BYTES))).status).toBe(204);
    const announced = await fixture.call("POST", path, padded('{"timeout":9}', REQUEST_BODY_MAX_BYTES + 1));
    expect([announced.status, announced.body.message]).toEqual([413, expect.stringContaining("1048576 bytes")]);
    const slow = slowBody(path);
    const spaces = new Uint8Array(MIB / 4).fill(32);
    let sent = 0;
    while (!slow.isAnswered && sent < 64) {
      await slow.send(spaces);
      sent += 1;
    }
    expect((await slow.answered).status).toBe(413);
    expect(sent).toBeLessThan(10);
  });

  test("of exactly 4 MiB creates a sandbox, and a longer one does not", async () => {
    const create = (bytes: number) => fixture.call("POST", "/sandboxes", padded('{"templateID":"base"}', bytes));
    expect((await create(REQUEST_LARGE_BODY_MAX_BYTES)).status).toBe(201);
    expect((await create(REQUEST_LARGE_BODY_MAX_BYTES + 1)).status).toBe(413);
  });

  test("has a bounded number of values, and is rejected before it is complete", async () => {
    const create = (entries: number) =>
      fixture.call("POST", "/sandboxes", { network: { allowOut: Array(entries).fill(7) } });
    expect((await create(REQUEST_VALUES_MAX - 3)).body.message).toMatch(/^validation error: .*; and \d+ more$/);
    const { status, body } = await create(REQUEST_VALUES_MAX);
    expect([status, body.message]).toEqual([400, `the body has more than ${REQUEST_VALUES_MAX} values`]);
    const slow = slowBody("/sandboxes");
    await slow.send(`[${"0,".repeat(REQUEST_VALUES_MAX)}`);
    expect((await slow.answered).status).toBe(400);
  });

  test("has a bounded depth, and is rejected before it is complete", async () => {
    const nested = (levels: number) => `{"templateID":"base","mcp":${'{"a":'.repeat(levels)}1${"}".repeat(levels)}}`;
    expect((await fixture.call("POST", "/sandboxes", nested(JSON_DEPTH_MAX - 1))).status).toBe(201);
    expect((await fixture.call("POST", "/sandboxes", nested(JSON_DEPTH_MAX))).status).toBe(400);
    const slow = slowBody("/sandboxes");
    await slow.send("[".repeat(JSON_DEPTH_MAX + 1));
    const { status, message } = await slow.answered;
    expect([status, message]).toEqual([400, `the body is nested deeper than ${JSON_DEPTH_MAX} levels`]);
  });

  test("that does not arrive in time is rejected", async () => {
    const slow = slowBody("/sandboxes");
    await slow.send('{"templateID":');
    await fixture.advance(REQUEST_BODY_MS - 1);
    expect(slow.isAnswered).toBe(false);
    await fixture.advance(1);
    const { status, message } = await slow.answered;
    expect([status, message]).toEqual([408, "the body did not arrive within 60 s, only 14 bytes of it"]);
  });

  test("is not read before the key is checked", async () => {
    const slow = slowBody("/sandboxes", "e2b_0000000000000000000000000000000000000000");
    let taken = 0;
    void (async () => {
      while (taken < 64) {
        await slow.send(new Uint8Array(MIB));
        taken += 1;
      }
    })();
    expect((await slow.answered).status).toBe(401);
    expect(taken).toBeLessThan(3);
  });
});

describe("concurrent bodies", () => {
  const held = REQUEST_LARGE_BODY_MAX_BYTES;
  /** A body that has arrived except for its end. */
  const hold = async (apiKey?: string) => {
    const body = slowBody("/sandboxes", apiKey);
    await body.send(new Uint8Array(held).fill(32));
    // The body was requested, and is counted in the same turn.
    await Bun.sleep(0);
    return body;
  };

  test("of one team are held up to its bound, and a response frees space", async () => {
    const fitting = BODIES_PER_TEAM_MAX_BYTES / held;
    const bodies = [];
    for (let nth = 0; nth < fitting; nth++) bodies.push(await hold());
    await fixture.advance((1000 * BODY_BYTES_PER_TEAM_BURST) / BODY_BYTES_PER_TEAM_PER_SECOND);
    const create = { templateID: "base" };
    const refused = await fixture.call("POST", "/sandboxes", create);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(refused.body.message).toBe(
      `this team may have ${BODIES_PER_TEAM_MAX_BYTES} bytes of request bodies under way, and sent more; ` +
        "send less at once, or try again after Retry-After seconds",
    );
    const other = { "X-API-Key": await fixture.anotherTeam("other") };
    expect((await fixture.call("POST", "/sandboxes", create, other)).status).toBe(201);
    expect((await fixture.call("GET", "/sandboxes")).status).toBe(200);
    await bodies[0]?.end();
    expect((await bodies[0]?.answered)?.status).toBe(400);
    expect((await fixture.call("POST", "/sandboxes", create)).status).toBe(201);
    await fixture.advance(REQUEST_BODY_MS);
    expect((await Promise.all(bodies.map(({ answered }) => answered))).map(({ status }) => status)).toEqual([
      400,
      ...Array(fitting - 1).fill(408),
    ]);
  });

  test("of all teams are held up to one bound", async () => {
    const teams = BODIES_MAX_BYTES / BODIES_PER_TEAM_MAX_BYTES;
    for (let team = 0; team < teams; team++) {
      const key = await fixture.anotherTeam(`team-${team}`);
      for (let nth = 0; nth < BODIES_PER_TEAM_MAX_BYTES / held; nth++) await hold(key);
    }
    const refused = await fixture.call("POST", "/sandboxes", { templateID: "base" });
    expect([refused.status, refused.body.message]).toEqual([429, expect.stringContaining("this server takes")]);
    await fixture.advance(REQUEST_BODY_MS);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "base" })).status).toBe(201);
  });

  test("a team that sends more than its bytes each second gets a Retry-After", async () => {
    const send = () => fixture.call("POST", "/sandboxes", padded("{}", held));
    for (let sent = 0; sent < BODY_BYTES_PER_TEAM_BURST; sent += held) expect((await send()).status).toBe(400);
    const refused = await send();
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(refused.body.message).toContain(`${BODY_BYTES_PER_TEAM_PER_SECOND} bytes of request bodies each second`);
    // A body that announces its length is rejected unread.
    expect((await slowBody("/sandboxes", fixture.apiKey, held).answered).status).toBe(429);
    await fixture.advance((1_000 * held) / BODY_BYTES_PER_TEAM_PER_SECOND);
    expect((await send()).status).toBe(400);
  });
});

describe("values of a body", () => {
  function depthOf(value: unknown): number {
    if (typeof value !== "object" || value === null) return 0;
    return 1 + Math.max(0, ...Object.values(value).map(depthOf));
  }

  /** In pieces of one byte, as in one. */
  function isRefused(text: string): boolean {
    const bytes = new TextEncoder().encode(text);
    const verdicts = [1, bytes.length || 1].map((step) => {
      const bounds = new JsonBounds();
      try {
        for (let at = 0; at < bytes.length; at += step) bounds.take(bytes.subarray(at, at + step));
        return false;
      } catch (fault) {
        if (!(fault instanceof Fault)) throw fault;
        return true;
      }
    });
    expect(verdicts[0]).toBe(verdicts[1] as boolean);
    return verdicts[0] as boolean;
  }

  fuzzText("JSON above the depth limit is rejected, for every split", {
    seeds: [
      '{"a":[1,"]}[{,",{"b":"\\\\"}],"c":"\\"[[[["}',
      "[".repeat(70) + "]".repeat(70),
      `${"[".repeat(60)}"${"[".repeat(60)}"${"]".repeat(60)}`,
      '{"a":{"b":{"c":[[[[[[[[{}]]]]]]]]}}}',
    ],
    check(text) {
      const refused = isRefused(text);
      let value: unknown;
      try {
        value = JSON.parse(text);
      } catch {
        return;
      }
      if (depthOf(value) > JSON_DEPTH_MAX) expect(refused).toBe(true);
      // Of two entries with one name, the parser keeps the last.
      else if (refused) expect(JSON.stringify(value).length).toBeLessThan(text.length);
    },
  });

  test("an empty list or object has no values, and each entry counts as one", () => {
    const many = (text: string, count: number) => `[${Array(count).fill(text).join(",")}]`;
    expect(isRefused(many("[]", REQUEST_VALUES_MAX - 1))).toBe(false);
    expect(isRefused(many("{ }", REQUEST_VALUES_MAX))).toBe(true);
    expect(isRefused(many("[0]", REQUEST_VALUES_MAX / 2 - 1))).toBe(false);
    expect(isRefused(many('{"a":0}', REQUEST_VALUES_MAX / 2))).toBe(true);
    expect(isRefused(many('","', REQUEST_VALUES_MAX - 1))).toBe(false);
  });
});
