/** docs/mcp.md lists the servers, settings, packages and limits of the gateway. */
import { expect, test } from "bun:test";
import { START_ALL_MS } from "../../src/mcp/background.ts";
import { CATALOGUE, NOT_SERVED, programOf } from "../../src/mcp/catalogue.ts";
import { SESSIONS_MAX } from "../../src/mcp/front-door.ts";
import { CALL_MS, CALLS_MAX } from "../../src/mcp/gateway.ts";
import { REQUEST_MAX_BYTES } from "../../src/mcp/limits.ts";
import { MESSAGE_MAX_BYTES } from "../../src/mcp/servers/stdio-process.ts";
import { RESTART_PAUSE_MS, RESTART_WINDOW_MS, RESTARTS_MAX } from "../../src/mcp/servers/stdio-server.ts";
import { UNREAD_NOTIFICATIONS_MAX } from "../../src/mcp/session.ts";
import { mcpGateway } from "../../templates/mcp-gateway/definition.ts";
import { tableRows } from "./markdown.ts";
import { readText } from "./source-files.ts";

const page = readText("docs/mcp.md");
const { dependencies } = JSON.parse(readText("templates/mcp-gateway/npm/package.json")) as {
  dependencies: Record<string, string>;
};

test("has every server with its settings and the version that is installed", () => {
  const documented = tableRows(page, ["Name", "Settings", "npm package"]).map((row) => Object.values(row));
  const served = Object.entries(CATALOGUE).map(([name, { package: npm, settings }]) => {
    const shown = Object.entries(settings).map(([key, setting]) =>
      setting.type === "paths" || setting.required ? key : `${key} (optional)`,
    );
    return [name, shown.length === 0 ? "none" : shown.join(", "), `${npm} ${dependencies[npm]}`];
  });
  expect(documented.map((cells) => cells.map((cell) => cell.replaceAll("`", "")))).toEqual(served);
});

test("every package of the template belongs to a server, with one version, where the gateway looks", () => {
  const used = Object.values(CATALOGUE).map((server) => server.package);
  expect(Object.keys(dependencies).toSorted()).toEqual(used.toSorted());
  expect(Object.values(dependencies).filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  expect(programOf("memory")).toStartWith(`${mcpGateway.npm?.target}/node_modules/`);
});

test("has the reasons why other servers are missing", () => {
  const named = tableRows(page, ["Not served", "Why"]).flatMap((row) => (row["Not served"] ?? "").split(", "));
  for (const name of Object.keys(NOT_SERVED)) expect(named).toContain(name);
});

test.each([
  `all within ${START_ALL_MS / 1000} seconds`,
  `restarts it up to ${RESTARTS_MAX} times within a minute, then waits ${RESTART_PAUSE_MS / 1000} s`,
  `at most ${SESSIONS_MAX}; a new one closes the longest idle session`,
  `at most ${MESSAGE_MAX_BYTES / 1024 ** 2} MiB, to and from a server`,
  `at most ${CALL_MS / 3_600_000} h from the last progress; ${CALLS_MAX} at once`,
  `has up to ${UNREAD_NOTIFICATIONS_MAX} queued notifications`,
  `Sandboxes have ${mcpGateway.cpuCount} processors and ${mcpGateway.memoryMB} MiB of memory`,
])("says so: %s", (sentence) => {
  expect(page.replaceAll(/\s+/g, " ")).toContain(sentence);
  expect([RESTART_WINDOW_MS, REQUEST_MAX_BYTES]).toEqual([60_000, MESSAGE_MAX_BYTES]);
});
