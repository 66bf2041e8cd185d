/** A small built-in template, based on `base`, from its first create on. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { Sandbox } from "e2b";
import type { TemplateDefinition } from "../../../src/contract/template-definition.ts";
import { belowFile, imageFolder } from "../../../src/images/image-folder.ts";
import { templateImage } from "../../../src/setup/template-image.ts";
import { RealServer } from "../../support/real-server.ts";
import { newDataFolder } from "../../support/server.ts";

const CACHE = process.env.SANDLOT_CACHE ?? "/var/cache/sandlot";

/** Its output is drawn once, in the process that the checkpoint keeps. */
const SERVICE = `
import http.server, os
word = os.urandom(8).hex().encode()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(word)
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()`;

const POCKET: TemplateDefinition = {
  name: "pocket",
  id: "sandlotpocket0000000",
  // So that its image is made anew by every run.
  description: `drawn for this run: ${crypto.randomUUID()}`,
  packages: [],
  finish: [],
  programs: {},
  start: { command: `python3 -c '${SERVICE}'`, ready: "curl -sf 127.0.0.1:8000" },
  cpuCount: 1,
  memoryMB: 512,
  diskSizeMB: 1024,
};

let server: RealServer;
beforeAll(async () => {
  server = await RealServer.open(newDataFolder("builtin-templates"), { definitions: [POCKET] });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  const image = templateImage(POCKET);
  rmSync(imageFolder(CACHE, image), { recursive: true, force: true });
  rmSync(belowFile(CACHE, image), { force: true });
});

const create = () => Sandbox.create("pocket", server.optionsWith());

test("the first create is 503 while the template is built; then sandboxes start with its running service", async () => {
  const refused = await create().catch((error: Error) => error);
  expect(refused).toMatchObject({ name: "ServiceBusyError", statusCode: 503 });
  expect((refused as Error).message).toMatch(/template "pocket" is being built \(build [0-9a-f-]{36}, \d+ s so far/);
  // Joins the build that the create has started.
  await server.control.buildTemplate("pocket", () => undefined);
  const [first, second] = [await create(), await create()];
  const words = await Promise.all([first, second].map((each) => each.commands.run("curl -s 127.0.0.1:8000")));
  expect(words[0]?.stdout).toMatch(/^[0-9a-f]{16}$/);
  expect(words[1]?.stdout).toBe(words[0]?.stdout as string);
  const { stdout } = await first.commands.run("id -un; pwd; cat /.e2b");
  const build = await server.store.builds.tagged(POCKET.id, "default");
  const ids = `ENV_ID=${POCKET.id}\nTEMPLATE_ID=${POCKET.id}\nBUILD_ID=${build?.id}\n`;
  expect(stdout).toBe(`user\n/home/user\n${ids}`);
  await Promise.all([first.kill(), second.kill()]);
});
