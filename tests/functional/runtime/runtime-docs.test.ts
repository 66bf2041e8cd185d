/** docs/runtime.md, line by line: commands copied from the page do what the page says. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { Filesystem } from "../../../src/contract/runtime/wire/filesystem/filesystem_pb.ts";
import { Process } from "../../../src/contract/runtime/wire/process/process_pb.ts";
import { LINK_MISSES_MAX } from "../../../src/control/access/signed-links.ts";
import { LIST_ENTRIES_MAX } from "../../../src/guest/file-tree/tree.ts";
import { COMPOSE_BODY_MAX_BYTES, COMPOSE_SOURCES_MAX } from "../../../src/guest/files/compose-request.ts";
import { FILE_METADATA_KEY_MAX_BYTES, FILE_METADATA_MAX_BYTES } from "../../../src/guest/files/file-metadata.ts";
import { POLLING_WATCHERS_MAX, WATCHERS_MAX } from "../../../src/guest/filesystem/watching/watchers.ts";
import { INPUT_WAITING_MAX_BYTES } from "../../../src/guest/process/guest-process.ts";
import { EXIT_RETENTION_MS } from "../../../src/guest/process/process-table.ts";
import { SUBSCRIBER_STALLED_MS, SUBSCRIBERS_PER_PROCESS_MAX } from "../../../src/guest/process/subscription.ts";
import { KEEPALIVE_DEFAULT_SECONDS } from "../../../src/guest/rpc/keepalive.ts";
import { GUEST_RPC_MESSAGE_MAX_BYTES } from "../../../src/guest/rpc/rpc.ts";
import { tableRows } from "../../conventions/markdown.ts";
import { readText } from "../../conventions/source-files.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { codeHeadings, difference, runnablePage } from "./documented-calls.ts";

const server = sharedServer();
const markdown = readText("docs/runtime.md");
const page = runnablePage(markdown);
const PAGE_MS = 100_000;
const CALL_MAX_SECONDS = 20;

const rpcs = [Process, Filesystem].flatMap((service) =>
  service.methods.map((method) => `${service.typeName}/${method.name}`),
);
const plain = [...readText("src/guest/front-door.ts").matchAll(/^ {2}"(\/[\w/]+)": \[([^\]]+)\]/gm)].flatMap(
  ([, path, methods = ""]) => [...methods.matchAll(/\w+/g)].map(([method]) => `${method} ${path}`),
);

describe("the page", () => {
  test("has every call of the runtime, and no others", () => {
    expect(rpcs).toHaveLength(17);
    expect(plain.length).toBeGreaterThanOrEqual(5);
    expect(codeHeadings(markdown).sort()).toEqual([...rpcs, ...plain].sort());
  });

  test.each([...rpcs.map((rpc) => [rpc, `/${rpc}`]), ...plain.map((call) => [call, call.split(" ")[1] ?? ""])])(
    "has an example of %s",
    (call, path) => {
      const scripts = page.examples.filter(({ section }) => section === call).map(({ script }) => script);
      const request = new RegExp(`\\bcurl .*\\$SANDLOT${path.replaceAll(".", "\\.")}(?![\\w/])`);
      expect(scripts.filter((script) => request.test(script))).not.toEqual([]);
    },
  );

  test("has every error code of RPCs with its status, and no others", () => {
    const codes = readText("src/guest/system/rpc-fault.ts").matchAll(/^ {2}(\w+): (\d{3}),$/gm);
    const table = [...codes].map(([, Code, Status]) => ({ Code, Status }));
    const rows = tableRows(markdown, ["Code", "Status", "When"]);
    expect(rows.map(({ Code, Status }) => ({ Code, Status }))).toEqual(table);
  });

  const mib = (bytes: number) => `${bytes / 1024 / 1024} MiB`;
  const spaced = (count: number) => String(count).replace(/\B(?=(\d{3})+$)/g, " ");
  test.each([
    `A message has at most ${mib(GUEST_RPC_MESSAGE_MAX_BYTES)}`,
    `${KEEPALIVE_DEFAULT_SECONDS} if absent`,
    `a key of at most ${FILE_METADATA_KEY_MAX_BYTES} bytes, ${FILE_METADATA_MAX_BYTES} bytes together`,
    `more than ${LINK_MISSES_MAX} links in a minute`,
    `At most ${spaced(COMPOSE_SOURCES_MAX)} sources`,
    `413 for a body above ${mib(COMPOSE_BODY_MAX_BYTES)}`,
    `reads nothing for ${SUBSCRIBER_STALLED_MS / 1000} seconds`,
    `when ${mib(INPUT_WAITING_MAX_BYTES)} are waiting`,
    `For ${EXIT_RETENTION_MS / 1000} seconds after the end of a process`,
    `At most ${SUBSCRIBERS_PER_PROCESS_MAX} listen to one process`,
    `At most ${spaced(LIST_ENTRIES_MAX)} entries`,
    `when there are ${WATCHERS_MAX} watchers`,
    `at most ${POLLING_WATCHERS_MAX} such watchers`,
  ])("has the limit: %s", (sentence) => {
    expect(markdown.replace(/\s+/g, " ")).toContain(sentence);
  });
});

/** All examples run in one shell, as for a reader; the output of each is in its own file. */
describe("an example", () => {
  const folder = folderOfFile("runtime-docs");
  beforeAll(async () => {
    writeFileSync(join(folder, ".curlrc"), `max-time = ${CALL_MAX_SECONDS}\n`);
    const env = { PATH: process.env.PATH ?? "", HOME: folder, LANG: "C.UTF-8", ...(await readersVariables()) };
    const examples = page.examples.map(({ script }, at) => `{\n${script}\n} > ${at} 2> ${at}.errors < /dev/null`);
    const shell = Bun.spawn(["bash", "-c", [page.definitions, ...examples].join("\n")], {
      cwd: folder,
      env,
      stdio: ["ignore", "ignore", "inherit"],
      timeout: PAGE_MS,
    });
    await shell.exited;
  });

  async function readersVariables(): Promise<Record<string, string>> {
    const { url, apiKey, options } = server();
    const sandbox = await Sandbox.create({ ...options, timeoutMs: 600_000 });
    const headers = { "X-API-Key": apiKey };
    const detail = await (await fetch(`${url}/sandboxes/${sandbox.sandboxId}`, { headers })).json();
    const { envdAccessToken } = detail as { envdAccessToken: string };
    return { SANDLOT: url, KEY: apiKey, ID: sandbox.sandboxId, TOKEN: envdAccessToken };
  }

  test.each(page.examples.map((example, at) => [at + 1, example.section, example] as const))(
    "%i, of %s, gives what the page says",
    (number, _, example) => {
      const printed = readFileSync(join(folder, String(number - 1)), "utf8");
      const errors = readFileSync(join(folder, `${number - 1}.errors`), "utf8");
      expect({ script: example.script, differs: difference(example, printed), errors }).toEqual({
        script: example.script,
        differs: undefined,
        errors: "",
      });
    },
  );
});
