import { expect, test } from "bun:test";
import { statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { folderOfFile } from "../../../base/testing/test-folder.ts";
import { Fault } from "../../../contract/fault.ts";
import { serveAdmin } from "./admin-socket.ts";

const unix = join(folderOfFile("admin"), "inner/socket");
const call = (request: string) => {
  const [method = "", path = ""] = request.split(" ");
  return fetch(`http://sandlot${path}`, { method, unix });
};

test("a request reaches its route, in a folder that only its owner may enter", async () => {
  const paused: string[] = [];
  const routes = {
    "GET /status": async () => ({ ok: true }),
    "GET /text": async () => "plain",
    "POST /sandboxes/{id}/pause": async (id: string) => void paused.push(id),
    "DELETE /sandboxes/{id}": (id: string) => Promise.reject(new Fault(404, `there is no sandbox "${id}"`)),
  };
  const server = serveAdmin(
    unix,
    routes,
    async ({ method, url }) => new Response(`${method} ${new URL(url).pathname}`),
  );
  expect(statSync(dirname(unix)).mode & 0o777).toBe(0o700);
  expect(await (await call("GET /status")).json()).toEqual({ ok: true });
  expect(await (await call("GET /text")).text()).toBe("plain");
  expect((await call("POST /sandboxes/i1/pause")).status).toBe(204);
  expect(paused).toEqual(["i1"]);
  const unknown = await call("DELETE /sandboxes/i2");
  expect({ status: unknown.status, body: await unknown.json() }).toEqual({
    status: 404,
    body: { code: 404, message: 'there is no sandbox "i2"' },
  });
  expect((await call("GET /sandboxes/i1")).status).toBe(404);
  expect((await call("DELETE /sandboxes/%")).status).toBe(400);
  for (const request of ["DELETE /admin/teams/t1", "GET /nodes"])
    expect(await (await call(request)).text()).toBe(request);
  await server.stop();
});

test("the socket of a killed server is replaced", async () => {
  writeFileSync(unix, "");
  const server = serveAdmin(unix, { "GET /status": async () => "new" }, async () => new Response());
  expect(await (await call("GET /status")).text()).toBe("new");
  await server.stop();
});
