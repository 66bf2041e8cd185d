import { expect, test } from "bun:test";
import { freePort } from "../base/testing/free-port.ts";
import { serveMetrics } from "./metrics-listener.ts";

test("GET /metrics has the metrics; a failed reading is a 500 without details", async () => {
  const listen = { hostname: "127.0.0.1", port: freePort() };
  const texts = [async () => "sandlot_info 1\n", () => Promise.reject(new Error("secret"))];
  await using stack = new AsyncDisposableStack();
  const server = await serveMetrics(listen, { text: () => texts.shift()?.() ?? Promise.resolve("") });
  stack.defer(() => server.stop());
  const url = `http://127.0.0.1:${listen.port}`;
  const first = await fetch(`${url}/metrics`);
  expect(first.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(await first.text()).toBe("sandlot_info 1\n");
  const second = await fetch(`${url}/metrics`);
  expect({ status: second.status, hasSecret: (await second.text()).includes("secret") }).toEqual({
    status: 500,
    hasSecret: false,
  });
  expect((await fetch(`${url}/`)).status).toBe(404);
});

test("a port that another program uses is an error with a remedy", async () => {
  using other = Bun.listen({ hostname: "127.0.0.1", port: freePort(), socket: { data: () => undefined } });
  const listen = { hostname: "127.0.0.1", port: other.port };
  await expect(serveMetrics(listen, { text: async () => "" })).rejects.toThrow(
    `cannot listen on 127.0.0.1:${listen.port} for metrics. FIX: free the port, or choose one with SANDLOT_METRICS`,
  );
});
