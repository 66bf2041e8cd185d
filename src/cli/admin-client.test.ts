import { afterEach, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { callSocket } from "./admin-client.ts";

const folder = folderOfFile("admin-client");
const adminSocket = join(folder, "socket");
const call = (request = "GET /status", callMs?: number) =>
  callSocket({ path: folder, adminSocket }, request, callMs === undefined ? {} : { callMs });

let server: Server | undefined;

afterEach(() => {
  server?.close();
  server = undefined;
  rmSync(adminSocket, { force: true });
});

async function answerWith(response: string | undefined): Promise<void> {
  server = createServer((connection) => {
    connection.on("error", () => undefined);
    connection.once("data", () => (response === undefined ? connection.destroy() : connection.end(response)));
  });
  await new Promise<void>((resolve) => server?.listen(adminSocket, resolve));
}

test("without a socket, or with the socket of a killed server, no server runs", async () => {
  await expect(call()).rejects.toMatchObject({ status: 404, message: expect.stringContaining("no server runs on") });
  writeFileSync(adminSocket, "");
  await expect(call()).rejects.toMatchObject({ status: 404, cause: { code: "ECONNREFUSED" } });
});

test("a connection that breaks is an error with its cause, not a missing server", async () => {
  await answerWith(undefined);
  const message = expect.stringMatching(/did not answer GET \/status: .*closed/);
  await expect(call()).rejects.toMatchObject({ status: 502, message, cause: { code: "ECONNRESET" } });
});

test("a server that stays silent is an error after the timeout", async () => {
  server = createServer(() => undefined);
  await new Promise<void>((resolve) => server?.listen(adminSocket, resolve));
  await expect(call("GET /logs", 20)).rejects.toMatchObject({ status: 504 });
});

test("a proxy of the environment does not get the call", async () => {
  await answerWith("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere");
  const { HTTP_PROXY } = process.env;
  process.env.HTTP_PROXY = "http://127.0.0.1:1";
  try {
    expect(await (await call()).text()).toBe("here");
  } finally {
    if (HTTP_PROXY === undefined) delete process.env.HTTP_PROXY;
    else process.env.HTTP_PROXY = HTTP_PROXY;
  }
});
