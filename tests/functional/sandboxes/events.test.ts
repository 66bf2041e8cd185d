/** Sandbox events, as the owner's webhook server receives them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const CREATED = "sandbox.lifecycle.created";
const KILLED = "sandbox.lifecycle.killed";
const SECRET = "between the two of us";

/** A server that sends webhooks to private addresses: the receivers are on this machine. */
const SETTINGS = { SANDLOT_READY: "0", SANDLOT_WEBHOOKS_INSIDE: "allow" };
const folder = foldersOfFile()("events");
const guarding = sharedServer();
let trusting: TestServer;
beforeAll(async () => {
  trusting = await startServer(folder, SETTINGS);
});

interface Received {
  headers: Headers;
  body: string;
  json: { id: string; type: string; sandbox_id: string; event_data: Record<string, unknown> };
}

const receivers: { stop(closing: boolean): unknown }[] = [];
afterAll(async () => {
  for (const receiver of receivers) receiver.stop(true);
  await trusting.stop();
});

function receiver(status: () => number = () => 200) {
  const received: Received[] = [];
  const listener = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const body = await request.text();
      received.push({ headers: request.headers, body, json: JSON.parse(body) });
      return new Response("heard", { status: status() });
    },
  });
  receivers.push(listener);
  return { url: `http://127.0.0.1:${listener.port}/hook`, received };
}

async function addHook(of: TestServer, url: string, events = [CREATED, KILLED]): Promise<string> {
  const made = await of.call("POST", "/events/webhooks", { name: "ours", url, events, signatureSecret: SECRET });
  expect(made.status).toBe(201);
  return made.body.id;
}

test("webhooks get signed events of a sandbox's life, and the event list has them in order", async () => {
  const { url, received } = receiver();
  const webhook = await addHook(trusting, url);
  const sandbox = await Sandbox.create({ ...trusting.options, metadata: { owner: "me" } });
  await sandbox.kill();
  await until("both are heard", () => received.length === 2);
  expect(received.map(({ json }) => json.type).toSorted()).toEqual([CREATED, KILLED]);
  for (const { headers, body, json } of received) {
    expect(json).toMatchObject({ sandbox_id: sandbox.sandboxId, event_data: { sandbox_metadata: { owner: "me" } } });
    const digest = new Bun.CryptoHasher("sha256")
      .update(SECRET + body)
      .digest("base64")
      .replaceAll("=", "");
    expect(headers.get("e2b-signature")).toBe(digest);
    expect(headers.get("e2b-webhook-id")).toBe(webhook);
  }
  const listed = await trusting.call("GET", `/events/sandboxes/${sandbox.sandboxId}?orderAsc=true`);
  expect(listed.body.map(({ type }: { type: string }) => type)).toEqual([CREATED, KILLED]);
  expect(listed.body[1].eventData.execution).toMatchObject({ vcpu_count: 2, memory_mb: 1024 });
  const sent = await trusting.call("GET", `/events/webhooks/${webhook}/deliveries`);
  expect(sent.body.data).toHaveLength(2);
  const stats = async () => (await trusting.call("GET", `/events/webhooks/${webhook}/stats`)).body;
  // A delivery counts once its response is back.
  await until("both are counted", async () => (await stats()).total === 2);
  expect(await stats()).toMatchObject({ total: 2, failed: 0 });
  expect((await trusting.call("DELETE", `/events/webhooks/${webhook}`)).status).toBe(200);
});

test("the next server sends an event that was recorded before a crash", async () => {
  let isUp = false;
  const { url, received } = receiver(() => (isUp ? 200 : 500));
  await addHook(trusting, url, [CREATED]);
  const sandbox = await Sandbox.create(trusting.options);
  await until("the first attempt has failed", () => received.length === 1);
  await trusting.crash();
  isUp = true;
  trusting = await startServer(folder, SETTINGS);
  await until("it is sent again", () => received.length === 2);
  expect(received[1]?.json.id).toBe(received[0]?.json.id ?? "");
  expect(received[1]?.json.sandbox_id).toBe(sandbox.sandboxId);
});

test("a server sends no event to a name with a private address, and records why; public addresses get it", async () => {
  const { url, received } = receiver();
  const inside = await addHook(guarding(), url.replace("127.0.0.1", "localhost"), [CREATED]);
  const outside = await addHook(guarding(), `http://${OUTSIDE}/hook`, [CREATED]);
  const sandbox = await Sandbox.create(guarding().options);
  const tried = async (id: string) =>
    (await guarding().call("GET", `/events/webhooks/${id}/deliveries`)).body.data[0]?.attempts[0];
  await until(
    "both were tried",
    async () => (await tried(inside)) !== undefined && (await tried(outside)) !== undefined,
  );
  expect(await tried(inside)).toMatchObject({ success: false, statusCode: null, error: "localhost leads inside" });
  expect(await tried(outside)).toMatchObject({ success: true, statusCode: 200 });
  expect(received).toEqual([]);
  for (const id of [inside, outside]) await guarding().call("DELETE", `/events/webhooks/${id}`);
  await sandbox.kill();
});
