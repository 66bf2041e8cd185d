/**
 * A sandbox's credentials open no other sandbox: not its neighbour, not a copy of it, not the one made after it.
 * Runtime tokens, traffic tokens and signed links, each through the real edge.
 */
import { beforeAll, expect, test } from "bun:test";
import { fileSignature } from "../../src/contract/runtime/file-signature.ts";
import { rawRequest } from "../support/raw-request.ts";
import { sharedServer } from "../support/shared-server.ts";

const RUNTIME = 49983;
const server = sharedServer();

interface Opened {
  sandboxID: string;
  envdAccessToken: string;
  trafficAccessToken: string;
}

const call = (method: string, path: string, body?: unknown) => server().call(method, path, body);

async function create(templateID = "base"): Promise<Opened> {
  const network = { allowPublicTraffic: false };
  const { status, body } = await call("POST", "/v2/sandboxes", { templateID, timeout: 600, network });
  expect(status).toBe(201);
  return body;
}

interface Given {
  token?: string;
  traffic?: string;
  query?: string;
}

/** The sandbox's responses to a request for a file and a request for a port, with these tokens. */
async function answersOf({ sandboxID }: Pick<Opened, "sandboxID">, { token, traffic, query = "" }: Given) {
  const ask = async (port: number, target: string) => {
    const headers = {
      ...(token === undefined ? {} : { "X-Access-Token": token, Authorization: `Basic ${btoa("user:")}` }),
      ...(traffic === undefined ? {} : { "E2B-Traffic-Access-Token": traffic }),
    };
    return (await rawRequest(server().url, { target, host: `${port}-${sandboxID}.anything.test`, headers })).status;
  };
  return { file: await ask(RUNTIME, `/files?path=/etc/hostname${query}`), port: await ask(8000, "/") };
}

const CLOSED = { file: 401, port: 403 };
/** The port has no listener, and a caller with access is told so. */
const OPEN = { file: 200, port: 502 };

let one: Opened;
let other: Opened;
beforeAll(async () => {
  [one, other] = await Promise.all([create(), create()]);
});

const keysOf = ({ envdAccessToken: token, trafficAccessToken: traffic }: Opened) => ({ token, traffic });

function signatureBy({ envdAccessToken }: Opened): string {
  const link = { path: "/etc/hostname", username: "", operation: "read", expiration: undefined } as const;
  return `&signature=${encodeURIComponent(fileSignature(link, envdAccessToken))}`;
}

test("credentials of a neighbour are rejected", async () => {
  expect(await answersOf(one, keysOf(one))).toEqual(OPEN);
  expect(await answersOf(one, keysOf(other))).toEqual(CLOSED);
  expect(await answersOf(other, keysOf(one))).toEqual(CLOSED);
  expect(await answersOf(one, {})).toEqual(CLOSED);
  // One is not taken for the other.
  expect(await answersOf(one, { token: one.trafficAccessToken, traffic: one.envdAccessToken })).toEqual(CLOSED);
});

test("a link signed by a neighbour is rejected", async () => {
  expect((await answersOf(one, { query: signatureBy(one) })).file).toBe(200);
  expect((await answersOf(one, { query: signatureBy(other) })).file).toBe(401);
});

test("credentials of a sandbox and its copies are rejected by each other", async () => {
  const { body } = await call("POST", `/sandboxes/${one.sandboxID}/fork`, { count: 2, timeout: 600 });
  const [first, second] = (body as { sandbox: Opened }[]).map(({ sandbox }) => sandbox) as [Opened, Opened];
  const snapshot = await call("POST", `/sandboxes/${one.sandboxID}/snapshots`, {});
  const third = await create(snapshot.body.snapshotID);
  const all = [one, first, second, third];
  for (const opened of all) {
    for (const by of all) {
      const expected = by === opened ? OPEN : CLOSED;
      // A copy is as private as its original: each has its own traffic token, or the original's opens none of them.
      const traffic = by.trafficAccessToken ?? "";
      expect([
        all.indexOf(opened),
        all.indexOf(by),
        await answersOf(opened, { token: by.envdAccessToken, traffic }),
      ]).toEqual([all.indexOf(opened), all.indexOf(by), expected]);
      expect((await answersOf(opened, { query: signatureBy(by) })).file).toBe(by === opened ? 200 : 401);
    }
  }
});

test("credentials of an ended sandbox, also those from its resume, are rejected", async () => {
  const before = await create();
  expect((await call("POST", `/sandboxes/${before.sandboxID}/pause`)).status).toBe(204);
  const { status, body } = await call("POST", `/sandboxes/${before.sandboxID}/resume`, { timeout: 600 });
  expect(status).toBe(201);
  expect(await answersOf(before, { token: body.envdAccessToken, traffic: before.trafficAccessToken })).toEqual(OPEN);
  expect((await call("DELETE", `/sandboxes/${before.sandboxID}`)).status).toBe(204);
  const after = await create();
  expect(await answersOf(after, keysOf(before))).toEqual(CLOSED);
  expect(await answersOf(before, keysOf(before))).toEqual({ file: 502, port: 502 });
});
