/** Uploads for builds: what an upload link allows, and how invalid uploads are handled. */
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { connect } from "node:net";
import { tarOf } from "../../base/testing/raw-tar.ts";
import { BuildCalls, type Requested } from "../testing/build-calls.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import {
  UPLOAD_LINK_SECONDS,
  UPLOADS_AT_ONCE_PER_TEAM,
  UPLOADS_KEPT_MS,
  UPLOADS_PER_TEAM_MAX,
  UPLOADS_PER_TEAM_MAX_BYTES,
  UPLOADS_SWEEP_MS,
} from "./uploads.ts";

const HASH = "ab".repeat(32);
const TAR = tarOf({ "a.txt": "content" });
const MAX = 4096;

let fixture: ControlFixture;
let build: Requested;
let server: ReturnType<typeof Bun.serve>;
let fromTrustedProxy: boolean;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  fixture.buildLimits = { uploadMaxBytes: MAX };
  await fixture.restart();
  build = await new BuildCalls(fixture).request("web");
  fromTrustedProxy = false;
  const fetch = (request: Request) => fixture.control.handle(request, { address: "127.0.0.1", fromTrustedProxy });
  server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch });
});
afterEach(async () => {
  await server.stop(true);
  await fixture[Symbol.asyncDispose]();
});

interface Link {
  present: boolean;
  url: string;
}

async function link(hash = HASH, headers: Record<string, string> = {}): Promise<Link> {
  const path = `${server.url.origin}/templates/${build.templateID}/files/${hash}`;
  const response = await fetch(path, { headers: { "X-API-Key": fixture.apiKey, ...headers } });
  expect(response.status).toBe(201);
  return (await response.json()) as Link;
}

const put = (url: string, body: Uint8Array<ArrayBuffer> | ReadableStream, headers = {}) =>
  fetch(url, { method: "PUT", body, headers });
const blobs = async () => (await fixture.blobs.list("")).map(({ name }) => name);
const own = (hash: string) => `files/${fixture.firstRun.teamId}/${hash}`;

test("a link accepts an archive without a key, and the files are present from then on", async () => {
  const { present, url } = await link();
  expect([present, url]).toEqual([false, expect.stringContaining(server.url.origin)]);
  const response = await put(url, TAR);
  expect([response.status, await response.text()]).toEqual([204, ""]);
  expect(await blobs()).toEqual([own(HASH)]);
  expect(await new Response(await fixture.blobs.open(own(HASH))).bytes()).toEqual(TAR);
  expect(await link()).toMatchObject({ present: true, url: expect.stringContaining("signature=") });
});

test("gzip and a stream without a length are accepted", async () => {
  expect((await put((await link()).url, Bun.gzipSync(TAR))).status).toBe(204);
  const { body } = new Response(TAR);
  expect((await put((await link("cd".repeat(32))).url, body ?? new ReadableStream())).status).toBe(204);
  expect(await blobs()).toHaveLength(2);
});

test("files belong to one team", async () => {
  await put((await link()).url, TAR);
  const key = await fixture.anotherTeam("other");
  const other = await new BuildCalls(fixture).request("web", {}, key);
  const reply = await fixture.call("GET", `/templates/${other.templateID}/files/${HASH}`, undefined, {
    "X-API-Key": key,
  });
  expect(reply.body).toMatchObject({ present: false });
});

test("the link has the prefix and scheme of a trusted proxy only", async () => {
  const reported = { "X-Forwarded-Proto": "https", "X-Forwarded-Host": "api.test", "X-Forwarded-Prefix": "/e2b" };
  const path = `/templates/${build.templateID}/files/${HASH}`;
  expect((await link(HASH, reported)).url).toStartWith(`${server.url.origin}${path}?`);
  fromTrustedProxy = true;
  expect((await link(HASH, reported)).url).toStartWith(`https://api.test/e2b${path}?`);
});

test("the link begins with the server's public URL, whatever the request and a proxy say", async () => {
  fixture.publicUrl = "https://public.test/e2b";
  await fixture.restart();
  fromTrustedProxy = true;
  const path = `/templates/${build.templateID}/files/${HASH}`;
  expect((await link(HASH, { "X-Forwarded-Proto": "http" })).url).toStartWith(`https://public.test/e2b${path}?`);
});

describe("is rejected and not stored:", () => {
  afterEach(async () => expect(await blobs()).toEqual([]));

  test.each([
    ["another hash", (url: URL) => Object.assign(url, { pathname: url.pathname.replace("ab", "cd") })],
    ["another signature", (url: URL) => url.searchParams.set("signature", "0".repeat(64))],
    ["more bytes", (url: URL) => url.searchParams.set("bytes", "999999999")],
    ["another end", (url: URL) => url.searchParams.set("expires", "99999999999")],
    [
      "another template",
      (url: URL) => Object.assign(url, { pathname: url.pathname.replace(build.templateID, "a".repeat(20)) }),
    ],
  ])("a link with %s", async (_, change) => {
    const url = new URL((await link()).url);
    change(url);
    expect((await put(url.href, TAR)).status).toBe(403);
  });

  test("a link of another server, an expired one, or one of a deleted template", async () => {
    const { url } = await link();
    await fixture.advance(UPLOAD_LINK_SECONDS * 1000);
    expect((await put(url, TAR)).status).toBe(403);
    const fresh = await link();
    await fixture.call("DELETE", "/templates/web");
    expect((await put(fresh.url, TAR)).status).toBe(403);
  });

  test("a link without its parameters", async () => {
    const url = new URL((await link()).url);
    expect((await put(`${url.origin}${url.pathname}`, TAR)).status).toBe(403);
  });

  test.each(["x", "A".repeat(64), "ab".repeat(33), "..%2F..%2Fetc"])("the hash %s", async (hash) => {
    expect((await fixture.call("GET", `/templates/${build.templateID}/files/${hash}`)).status).toBe(400);
  });

  test("a body that is not an archive", async () => {
    const response = await put((await link()).url, new Uint8Array(2000).fill(65));
    expect([response.status, await response.json()]).toMatchObject([400, { code: 400 }]);
  });

  test("a body with a too large Content-Length, before it is read", async () => {
    const { hostname, port, pathname, search } = new URL((await link()).url);
    const answer = await exchange(Number(port), hostname, [
      `PUT ${pathname}${search} HTTP/1.1\r\nHost: ${hostname}\r\nContent-Length: ${MAX + 1}\r\n\r\n`,
    ]);
    expect(answer).toStartWith("HTTP/1.1 413 ");
  });

  test("a body that is too large without a Content-Length", async () => {
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1024)) });
    const status = await put((await link()).url, endless).then(({ status }) => status);
    expect(status).toBe(413);
  });

  test.each([
    [
      "with a length",
      (url: URL) => `PUT ${url.pathname}${url.search} HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n`,
    ],
    [
      "in chunks",
      (url: URL) => `PUT ${url.pathname}${url.search} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n600\r\n`,
    ],
  ])("an interrupted body, %s", async (_, head) => {
    const url = new URL((await link()).url);
    await exchange(Number(url.port), url.hostname, [head(url), TAR.slice(0, 1536)], "hang up");
    await fixture.until(() => fixture.logLines.some((line) => line.includes('"PUT"')));
  });
});

test("concurrent uploads of a team are bounded, and one above gets a Retry-After", async () => {
  const urls = await Promise.all(
    Array.from({ length: UPLOADS_AT_ONCE_PER_TEAM + 1 }, (_, at) => link(at.toString(16).padStart(64, "0"))),
  );
  const [last, ...first] = urls.toReversed();
  const receives = spyOn(fixture.blobs, "put");
  const finish = Promise.withResolvers<void>();
  const held = () =>
    new ReadableStream({
      async start(controller) {
        controller.enqueue(TAR.slice(0, 1024));
        await finish.promise;
        controller.enqueue(TAR.slice(1024));
        controller.close();
      },
    });
  const responses = first.map(({ url }) => put(url, held()));
  await fixture.until(() => receives.mock.calls.length === UPLOADS_AT_ONCE_PER_TEAM);
  const refused = await put(last?.url ?? "", TAR);
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
  expect((await refused.json()).message).toBe("this team has 32 uploads under way; wait for one of them");
  finish.resolve();
  expect(new Set((await Promise.all(responses)).map(({ status }) => status))).toEqual(new Set([204]));
});

test("stored files of a team are bounded in number and in bytes", async () => {
  const { url } = await link();
  const kept = spyOn(fixture.blobs, "list");
  const blob = { name: "x", bytes: 1, usedAt: 0 };
  for (const many of [Array(UPLOADS_PER_TEAM_MAX).fill(blob), [{ ...blob, bytes: UPLOADS_PER_TEAM_MAX_BYTES }]]) {
    kept.mockResolvedValueOnce(many);
    const refused = await put(url, TAR);
    expect([refused.status, (await refused.json()).message]).toEqual([
      507,
      expect.stringContaining(`the bounds are ${UPLOADS_PER_TEAM_MAX} and ${UPLOADS_PER_TEAM_MAX_BYTES}`),
    ]);
  }
  expect((await put(url, TAR)).status).toBe(204);
});

test("a stop of the server aborts uploads", async () => {
  const { hostname, port, pathname, search } = new URL((await link()).url);
  const head = `PUT ${pathname}${search} HTTP/1.1\r\nHost: a\r\nContent-Length: ${TAR.length}\r\n\r\n`;
  const receives = spyOn(fixture.blobs, "put");
  const answer = exchange(Number(port), hostname, [head, TAR.slice(0, 1024)]);
  await fixture.until(() => receives.mock.calls.length > 0);
  await fixture.restart();
  expect(await answer).toStartWith("HTTP/1.1 503 ");
  expect(await blobs()).toEqual([]);
});

test("files that no build has used for long are removed, except those that a build needs", async () => {
  const calls = new BuildCalls(fixture);
  const used = "cd".repeat(32);
  for (const hash of [HASH, used]) await put((await link(hash)).url, TAR);
  const held = calls.hold();
  const steps = [{ type: "COPY", args: ["a", "b"], filesHash: used }];
  expect((await calls.start(build, { steps })).status).toBe(202);
  await held.begun(build);
  expect(held.requests[0]?.steps).toMatchObject([{ type: "copy", files: own(used) }]);
  fixture.clock.jump(UPLOADS_KEPT_MS);
  await fixture.idleClock.advance(UPLOADS_SWEEP_MS, () => fixture.control.settled());
  await fixture.control.settled();
  expect(await blobs()).toEqual([own(used)]);
});

// Guards against a client that hears that its files are present, does not send them, and has its build rejected.
test("files that a client was told about during a removal are kept", async () => {
  const request = "cd".repeat(32);
  for (const hash of [HASH, request]) await put((await link(hash)).url, TAR);
  fixture.clock.jump(UPLOADS_KEPT_MS);
  const remove = fixture.blobs.remove.bind(fixture.blobs);
  spyOn(fixture.blobs, "remove").mockImplementationOnce(async (name) => {
    expect(name).toBe(own(HASH));
    expect((await link(request)).present).toBe(true);
    await remove(name);
  });
  await fixture.idleClock.advance(UPLOADS_SWEEP_MS, () => fixture.control.settled());
  await fixture.control.settled();
  expect(await blobs()).toEqual([own(request)]);
});

/** Sends this over its own connection; returns the beginning of the response, or nothing if the server hangs up. */
function exchange(
  port: number,
  host: string,
  pieces: readonly (string | Uint8Array)[],
  then?: "hang up",
): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host, () => {
      for (const piece of pieces) socket.write(piece);
      if (then === "hang up") setTimeout(() => socket.destroy(), 50);
    });
    socket.once("data", (data) => {
      resolve(data.toString());
      socket.destroy();
    });
    socket.once("close", () => resolve(""));
    socket.once("error", reject);
  });
}
