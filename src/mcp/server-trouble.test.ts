/** Servers that end, send too much or stay silent: the gateway reports it, and other servers are unaffected. */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../base/testing/until.ts";
import { Gateway } from "./gateway.ts";
import { MESSAGE_MAX_BYTES } from "./servers/stdio-process.ts";
import { RESTARTS_MAX } from "./servers/stdio-server.ts";
import { Session, UNREAD_NOTIFICATIONS_MAX } from "./session.ts";
import { callText, gatewayOfFile, rawSession, stub } from "./testing/gateway-of-file.ts";

const gateway = gatewayOfFile([stub("ann"), stub("bob")]);
const START_MS = 30_000;
const greeted = { name: "you" };

test("a server that ends during a call: the caller gets its last output, the next call restarts it", async () => {
  const client = await gateway().connect();
  await expect(client.callTool({ name: "ann__die" })).rejects.toThrow(
    "the server ann ended during the call: exit code 3; on its standard error: ann was told to end",
  );
  expect(await callText(client, "ann__greet", greeted)).toBe("ann, you");
  expect(gateway().log.join("\n")).toContain("ann ended: exit code 3");
});

test("a server that keeps ending is suspended with an error, and others answer", async () => {
  const client = await gateway().connect();
  for (let times = 0; times < RESTARTS_MAX; times++) {
    await client.callTool({ name: "ann__die" }).catch(() => undefined);
  }
  await expect(client.callTool({ name: "ann__greet" })).rejects.toThrow(
    /the server ann keeps ending; a call in \d+ s restarts it. Last: exit code 3; .*ann was told to end/,
  );
  expect(await callText(client, "bob__greet", greeted)).toBe("bob, you");
});

test("a server whose folder is gone at a restart is suspended", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-mcp-"));
  const plan = { ...stub("cid"), repository: { url: "", folder } };
  const own = new Gateway([plan], undefined, () => undefined);
  await own.start(AbortSignal.timeout(START_MS));
  const session = new Session("x", own.greeting(), {
    call: (by, call) => own.call(by, call),
    levelChanged: () => undefined,
    closed: () => undefined,
  });
  const call = async (name: string): Promise<string> => {
    const request = { jsonrpc: "2.0" as const, id: 1, method: "tools/call", params: { name } };
    const signal = AbortSignal.timeout(START_MS);
    return await own.call(session, { request, signal, notify: () => undefined }).then(JSON.stringify, String);
  };
  rmSync(folder, { recursive: true });
  expect(await call("die")).toContain("exit code 3");
  let output = "";
  await until("the server is suspended", async () => {
    output = await call("greet");
    return output.includes("keeps ending");
  });
  expect(output).toContain("Last: not begun: ENOENT");
  await own.close();
});

test("a message of more bytes than allowed ends its server, not the gateway", async () => {
  const client = await gateway().connect();
  const big = await callText(client, "bob__grow", { bytes: MESSAGE_MAX_BYTES / 4 });
  expect(big).toHaveLength(MESSAGE_MAX_BYTES / 4);
  await expect(client.callTool({ name: "bob__grow", arguments: { bytes: MESSAGE_MAX_BYTES } })).rejects.toThrow(
    `ended by the gateway, for a message of more than ${MESSAGE_MAX_BYTES} bytes`,
  );
  expect(await callText(client, "bob__greet", greeted)).toBe("bob, you");
});

test("a client that does not read a flood gets a bounded part of it, and others are answered", async () => {
  const COUNT = 2_000;
  const deaf = await rawSession(gateway());
  const stream = await deaf.send("GET");
  const client = await gateway().connect();
  expect(await callText(client, "bob__flood", { count: COUNT })).toBe("done");
  expect(await callText(client, "bob__greet", greeted)).toBe("bob, you");
  await deaf.send("DELETE");
  const arrived = (await stream.text()).match(/notifications\/message/g)?.length ?? 0;
  expect(arrived).toBeGreaterThanOrEqual(UNREAD_NOTIFICATIONS_MAX);
  expect(arrived).toBeLessThan(COUNT);
});

describe("a gateway does not start, and leaves no process, when a server", () => {
  const start = (argv: readonly string[]) =>
    new Gateway([stub("ann"), { name: "bad", argv, variables: {} }], undefined, () => undefined).start(
      AbortSignal.timeout(START_MS),
    );

  test("ends at once: the error has its output", async () => {
    await expect(start(["sh", "-c", "echo no key >&2; exit 7"])).rejects.toThrow(
      "the server bad does not start: Connection closed (exit code 7; on its standard error: no key)",
    );
  });

  test("does not exist", async () => {
    await expect(start(["/nowhere/server"])).rejects.toThrow(/the server bad does not start: .*\/nowhere\/server/);
  });

  test("does not answer in time", async () => {
    const silent = new Gateway([{ name: "bad", argv: ["sleep", "1000"], variables: {} }], undefined, () => undefined);
    await expect(silent.start(AbortSignal.timeout(300))).rejects.toThrow("bad had no time left to start");
  });
});
