/** The gateway between the official client and real server processes. */
import { describe, expect, test } from "bun:test";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import {
  LoggingMessageNotificationSchema,
  type Progress,
  ResourceUpdatedNotificationSchema,
  ResultSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { until } from "../base/testing/until.ts";
import { callText, gatewayOfFile, stub } from "./testing/gateway-of-file.ts";

const gateway = gatewayOfFile([stub("ann"), stub("bob")]);

async function toolNames(client: Client): Promise<string[]> {
  return (await client.listTools()).tools.map(({ name }) => name);
}

/** The first notification of a kind that `isIt`. */
function received<T>(
  client: Client,
  schema: Parameters<Client["setNotificationHandler"]>[0],
  isIt: (params: T) => boolean,
) {
  const { promise, resolve } = Promise.withResolvers<T>();
  client.setNotificationHandler(schema, ({ params }) => {
    if (isIt(params as T)) resolve(params as T);
  });
  return promise;
}

describe("tools", () => {
  test("keep unique names; a name that two servers share gets the server's name as a prefix", async () => {
    const client = await gateway().connect();
    const names = await toolNames(client);
    expect(names).toContain("only_ann");
    expect(names).toContain("only_bob");
    expect(names).toContain("ann__greet");
    expect(names).not.toContain("greet");
    expect(new Set(names).size).toBe(names.length);
    expect(await callText(client, "ann__greet", { name: "you" })).toBe("ann, you");
    expect(await callText(client, "bob__greet", { name: "you" })).toBe("bob, you");
  });

  test("are listed as their server describes them, with all fields", async () => {
    const client = await gateway().connect();
    const { tools } = await client.request({ method: "tools/list" }, ResultSchema);
    expect((tools as { name: string; "x-more"?: string }[]).find(({ name }) => name === "only_bob")?.["x-more"]).toBe(
      "bob",
    );
  });

  test("that no server has are rejected with their name, once", async () => {
    const client = await gateway().connect();
    const refused = client.callTool({ name: "nothing" });
    await expect(refused).rejects.toThrow(/^MCP error -32602: no server has a tool "nothing"; tools\/list has all$/);
  });

  test("return a server's own error unchanged", async () => {
    const client = await gateway().connect();
    await expect(client.callTool({ name: "only_ann" })).rejects.toThrow(/^MCP error -32602: no tool only_ann$/);
  });

  test("a hundred concurrent calls each get their own result", async () => {
    const client = await gateway().connect();
    const numbers = Array.from({ length: 100 }, (_, at) => `${at}`);
    const texts = await Promise.all(numbers.map((name) => callText(client, "bob__greet", { name })));
    expect(texts).toEqual(numbers.map((name) => `bob, ${name}`));
  });

  test("that are added later are announced and can be called", async () => {
    const client = await gateway().connect();
    await toolNames(client);
    const announced = received(client, ToolListChangedNotificationSchema, () => true);
    await callText(client, "ann__add_tool");
    await announced;
    expect(await toolNames(client)).toContain("another");
    await expect(client.callTool({ name: "another" })).rejects.toThrow("no tool another");
  });
});

describe("during a call", () => {
  test("progress reaches only the client that asked for it", async () => {
    const client = await gateway().connect();
    const heardProgress: Progress[] = [];
    const onprogress = (progress: Progress) => heardProgress.push(progress);
    const { content } = await client.callTool({ name: "ann__steps" }, undefined, { onprogress });
    expect(content).toEqual([{ type: "text", text: "told" }]);
    expect(heardProgress).toEqual([1, 2, 3].map((progress) => ({ progress, total: 3 })));
    expect(await callText(client, "ann__steps")).toBe("nobody asked");
  });

  test("a client that gives up cancels it at the server", async () => {
    const client = await gateway().connect();
    const giveUp = new AbortController();
    const call = client.callTool({ name: "bob__wait" }, undefined, { signal: giveUp.signal });
    const state = async () =>
      JSON.parse(await callText(client, "bob__cancelled")) as { cancelled: number[]; waiting?: number };
    await until("the server waits", async () => (await state()).waiting !== undefined);
    giveUp.abort("enough");
    await expect(call).rejects.toThrow("enough");
    await until("the server has cancelled it", async () => (await state()).cancelled.length > 0);
    const { cancelled, waiting } = await state();
    expect(cancelled).toEqual([waiting as number]);
  });
});

test("servers do not get the token", async () => {
  process.env.GATEWAY_ACCESS_TOKEN = "secret";
  expect(await callText(await gateway().connect(), "ann__token")).toBe("undefined");
});

describe("prompts and resources", () => {
  test("of all servers are listed, and read from their own server", async () => {
    const client = await gateway().connect();
    const { prompts } = await client.listPrompts();
    expect(prompts.map(({ name }) => name)).toEqual(["ann__ask", "ask_ann", "bob__ask", "ask_bob"]);
    const { messages } = await client.getPrompt({ name: "bob__ask" });
    expect(messages[0]?.content).toEqual({ type: "text", text: "bob: ask" });
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual(["stub://ann/a", "stub://bob/a"]);
    for (const uri of ["stub://bob/a", "stub://bob/more/7"]) {
      expect((await client.readResource({ uri })).contents).toEqual([{ uri, text: "bob" }]);
    }
    await expect(client.readResource({ uri: "stub://none" })).rejects.toThrow('no server has a resource "stub://none"');
  });

  test("changes of a resource reach its subscribers", async () => {
    const [one, other] = [await gateway().connect(), await gateway().connect()];
    const updated = received<{ uri: string }>(one, ResourceUpdatedNotificationSchema, () => true);
    let others = 0;
    other.setNotificationHandler(ResourceUpdatedNotificationSchema, () => void others++);
    await one.subscribeResource({ uri: "stub://ann/a" });
    await callText(other, "ann__touch", { uri: "stub://ann/a" });
    expect((await updated).uri).toBe("stub://ann/a");
    await one.unsubscribeResource({ uri: "stub://ann/a" });
    expect(await callText(one, "ann__levels")).toContain("resources/unsubscribe stub://ann/a");
    expect(others).toBe(0);
  });
});

test("each session gets log messages of its level", async () => {
  const [all, few] = [await gateway().connect(), await gateway().connect()];
  await few.setLoggingLevel("error");
  let heardByFew = 0;
  few.setNotificationHandler(LoggingMessageNotificationSchema, () => void heardByFew++);
  const message = received<{ level: string }>(all, LoggingMessageNotificationSchema, () => true);
  await callText(few, "ann__flood", { count: 1 });
  expect((await message).level).toBe("info");
  expect(heardByFew).toBe(0);
});

test("instructions of all servers come with the session", async () => {
  const client = await gateway().connect();
  expect(client.getInstructions()).toBe("ann: say ann\n\nbob: say bob");
});
