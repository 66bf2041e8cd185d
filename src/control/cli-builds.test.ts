/** The official command line builds a Dockerfile with its files against this management API. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BuildRequest } from "../contract/internal/host.ts";
import { ControlFixture } from "./testing/control-fixture.ts";

const PROGRAM = join(import.meta.dir, "../../node_modules/.bin/e2b");
const COMMAND_MS = 100_000;

let fixture: ControlFixture;
let server: Bun.Server<undefined>;
const folder = mkdtempSync(join(tmpdir(), "sandlot-cli-build-"));
beforeAll(async () => {
  fixture = await ControlFixture.open();
  server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => fixture.control.handle(request) });
});
afterAll(async () => {
  await server.stop(true);
  await fixture[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test(
  "e2b template create sends steps, files and commands, and ends when the build is ready",
  async () => {
    writeFileSync(join(folder, "one.txt"), "one\n");
    writeFileSync(join(folder, "e2b.Dockerfile"), "FROM debian:12\nCOPY one.txt /srv/\nENV A=1\nRUN make\n");
    const requests: BuildRequest[] = [];
    const usual = fixture.host.buildAs;
    fixture.host.buildAs = (request) => {
      requests.push(request);
      return usual(request);
    };
    const command = ["template", "create", "by-cli", "-c", "serve", "--ready-cmd", "true", "--cpu-count", "1"];
    const child = Bun.spawn(["node", PROGRAM, ...command], {
      cwd: folder,
      env: { PATH: process.env.PATH ?? "", HOME: folder, E2B_API_URL: server.url.origin, E2B_API_KEY: fixture.apiKey },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: COMMAND_MS,
    });
    const output = await new Response(child.stdout).text();
    expect([await child.exited, output]).toEqual([0, expect.stringContaining("by-cli")]);
    expect(requests).toMatchObject([
      {
        from: { kind: "registry", image: "debian:12", credentials: null },
        start: { command: "serve", ready: "true" },
        cpuCount: 1,
        steps: [
          { type: "user", name: "root" },
          { type: "workdir", path: "/" },
          { type: "copy", source: "one.txt", target: "/srv/" },
          { type: "env", variables: [["A", "1"]] },
          { type: "run", command: "make" },
          { type: "user", name: "user" },
          { type: "workdir", path: "/home/user" },
        ],
      },
    ]);
    expect(await fixture.blobs.list("")).toHaveLength(1);
  },
  COMMAND_MS,
);
