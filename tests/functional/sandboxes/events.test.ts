/** Sandbox events, as the owner's webhook server receives them. */
import { afterAll, describe, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile, serverOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const CREATED = "sandbox.lifecycle.created";
const KILLED = "sandbox.lifecycle.killed";
const SECRET = "between the two of us";

/** Sends webhooks to private addresses: the receivers are on this machine. */
const trusting = serverOfFile("events-inside", { SANDLOT_WEBHOOKS_INSIDE: "allow" });
const server = serverOfFile("events");
const folderNamed = foldersOfFile();

interface Received {
  headers: Headers;
  body: string;
  json: { id: string; type: string; sandbox_id: string; event_data: Record<string, unknown> };
}

const receivers: { stop(closing: boolean): unknown }[] = [];
afterAll(() => {
  for (const receiver of receivers) receiver.stop(true);
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

test("a sandbox's life is told, signed, in the order that it is asked for", async () => {
  const { url, received } = receiver();
  const webhook = await addHook(trusting(), url);
  const sandbox = await Sandbox.create({ ...trusting().options, metadata: { owner: "me" } });
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
  const listed = await trusting().call("GET", `/events/sandboxes/${sandbox.sandboxId}?orderAsc=true`);
  expect(listed.body.map(({ type }: { type: string }) => type)).toEqual([CREATED, KILLED]);
  expect(listed.body[1].eventData.execution).toMatchObject({ vcpu_count: 2, memory_mb: 1024 });
  const sent = await trusting().call("GET", `/events/webhooks/${webhook}/deliveries`);
  expect(sent.body.data).toHaveLength(2);
  const stats = async () => (await trusting().call("GET", `/events/webhooks/${webhook}/stats`)).body;
  // A delivery counts once its response is back.
  await until("both are counted", async () => (await stats()).total === 2);
  expect(await stats()).toMatchObject({ total: 2, failed: 0 });
  expect((await trusting().call("DELETE", `/events/webhooks/${webhook}`)).status).toBe(200);
});

test("an event that a receiver could not take is brought again", async () => {
  let answers = 0;
  const { url, received } = receiver(() => (answers++ === 0 ? 503 : 200));
  const webhook = await addHook(trusting(), url, [CREATED]);
  const sandbox = await Sandbox.create(trusting().options);
  await until("it is heard twice", () => received.length === 2);
  expect(received[1]?.body).toBe(received[0]?.body ?? "");
  expect(received[1]?.headers.get("e2b-delivery-id")).toBe(received[0]?.headers.get("e2b-delivery-id") ?? "");
  await Promise.all([sandbox.kill(), trusting().call("DELETE", `/events/webhooks/${webhook}`)]);
});

test("an event that was recorded before the server was killed is brought by the next", async () => {
  const folder = folderNamed("events-crash");
  const settings = { SANDLOT_WEBHOOKS_INSIDE: "allow" };
  const first = await startServer(folder, settings);
  let isUp = false;
  const { url, received } = receiver(() => (isUp ? 200 : 500));
  await addHook(first, url, [CREATED]);
  const sandbox = await Sandbox.create(first.options);
  await until("the first try has failed", () => received.length === 1);
  await first.crash();
  isUp = true;
  const second = await startServer(folder, settings);
  await until("it is heard again", () => received.length === 2);
  expect(received[1]?.json.id).toBe(received[0]?.json.id ?? "");
  expect(received[1]?.json.sandbox_id).toBe(sandbox.sandboxId);
  await Sandbox.kill(sandbox.sandboxId, second.options);
  await second.stop();
});

describe("a server that guards its inside", () => {
  test("refuses addresses inside when a webhook is made", async () => {
    const { url, received } = receiver();
    for (const inside of [url, "http://169.254.169.254/", "http://198.18.0.2:49983/", "http://[::ffff:127.0.0.1]/"]) {
      const body = { name: "x", url: inside, events: [CREATED], signatureSecret: SECRET };
      expect((await server().call("POST", "/events/webhooks", body)).status).toBe(400);
    }
    expect(received).toEqual([]);
  });

  test("sends nothing to a name that leads inside, and says so; what leads outside is sent", async () => {
    const { url, received } = receiver();
    const inside = await addHook(server(), url.replace("127.0.0.1", "localhost"), [CREATED]);
    const outside = await addHook(server(), `http://${OUTSIDE}/hook`, [CREATED]);
    const sandbox = await Sandbox.create(server().options);
    const tried = async (id: string) =>
      (await server().call("GET", `/events/webhooks/${id}/deliveries`)).body.data[0]?.attempts[0];
    await until(
      "both were tried",
      async () => (await tried(inside)) !== undefined && (await tried(outside)) !== undefined,
    );
    expect(await tried(inside)).toMatchObject({ success: false, statusCode: null, error: "localhost leads inside" });
    expect(await tried(outside)).toMatchObject({ success: true, statusCode: 200 });
    expect(received).toEqual([]);
    await sandbox.kill();
  });
});
