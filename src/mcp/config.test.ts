/** Every kind of invalid configuration, and the result of a valid one. */
import { describe, expect, test } from "bun:test";
import { CATALOGUE, NOT_SERVED } from "./catalogue.ts";
import { checkNames, parseConfig, SERVERS_MAX } from "./config.ts";

const parse = (config: unknown) => parseConfig(JSON.stringify(config));

describe("a server of the catalogue", () => {
  test("gets its paths as arguments", () => {
    const [plan] = parse({ filesystem: { paths: ["/home/user", "/data"] } });
    expect(plan?.argv).toEqual([
      "node",
      "/opt/mcp/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
      "/home/user",
      "/data",
    ]);
  });

  test("gets its secrets as variables, never as arguments", () => {
    const settings = (name: string) =>
      Object.fromEntries(
        Object.entries(CATALOGUE[name]?.settings ?? {}).map(([key, { type }]) => [
          key,
          { text: "hush", number: 42, paths: ["/x"] }[type],
        ]),
      );
    const plans = parse(Object.fromEntries(Object.keys(CATALOGUE).map((name) => [name, settings(name)])));
    expect(plans.map(({ name }) => name)).toEqual(Object.keys(CATALOGUE));
    expect(plans.filter(({ argv }) => argv.join().includes("hush"))).toEqual([]);
    const given = plans.filter(({ variables }) => Object.values(variables).includes("hush"));
    expect(given.map(({ name }) => name)).toEqual([
      "airtable",
      "brave",
      "context7",
      "exa",
      "firecrawl",
      "notion",
      "stripe",
      "tavily",
    ]);
  });
});

test("a repository is cloned below the state folder, and its command is run there", () => {
  const [plan] = parse({ "github/some-one/re.po": { runCmd: "node x.js", installCmd: "npm ci", envs: { A: "1" } } });
  expect(plan).toEqual({
    name: "github/some-one/re.po",
    argv: ["bash", "-c", "node x.js"],
    variables: { A: "1" },
    repository: {
      url: "https://github.com/some-one/re.po",
      folder: "/var/lib/mcp-gateway/repositories/some-one/re.po",
      installCmd: "npm ci",
    },
  });
});

const tooMany = Object.fromEntries(Array.from({ length: SERVERS_MAX + 1 }, (_, at) => [`s${at}`, {}]));
test.each<[unknown, string]>([
  [[], "--config is not a JSON object"],
  [null, "--config is not a JSON object"],
  [{}, "--config has no server; Servers that can be served: airtable, brave,"],
  [tooMany, `--config names ${SERVERS_MAX + 1} servers; at most ${SERVERS_MAX} can be served at once`],
  [{ memory: null }, "memory: its settings are null; give an object, {} for none"],
  [{ memory: { file: "x" } }, "memory: unknown settings: file; it has none"],
  [{ filesystem: {} }, "filesystem: missing settings: paths"],
  [{ filesystem: { paths: [] } }, "filesystem: the setting paths is an empty list; give a list of absolute paths"],
  [{ filesystem: { paths: "/x" } }, "filesystem: the setting paths is a text; give a list of absolute paths"],
  [{ filesystem: { paths: ["x"] } }, 'filesystem: the setting paths has "x"; give absolute paths'],
  [{ filesystem: { paths: ["--x"] } }, 'has "--x"; give absolute paths'],
  [{ filesystem: { path: ["/x"] } }, "filesystem: unknown settings: path; it has paths"],
  [{ brave: {} }, "brave: missing settings: apiKey"],
  [{ brave: { apiKey: "" } }, "brave: missing settings: apiKey"],
  [{ brave: { apiKey: 7 } }, "brave: the setting apiKey is number; give a text"],
  [{ firecrawl: { apiKey: "x", retryMax: "many" } }, "firecrawl: the setting retryMax is a text; give a number"],
  [{ "github/a/b": {} }, "github/a/b: missing settings: runCmd"],
  [{ "github/a/b": { runCmd: "x", envs: { A: 1 } } }, "github/a/b: the variable A is number; give a text"],
  [{ "github/a/b": { runCmd: "x", envs: { "A=": "" } } }, '"A=" cannot be the name of a variable'],
  [{ "github/a/b": { runCmd: "x", installCmd: 1 } }, "the setting installCmd is number; give a command line"],
  [{ "github/a": { runCmd: "x" } }, '"github/a" is not a repository; write github/OWNER/REPO'],
  [{ "github/../b": { runCmd: "x" } }, '"github/../b" is not a repository'],
  [{ "github/a/..": { runCmd: "x" } }, '"github/a/.." is not a repository'],
  [{ "github/-a/b": { runCmd: "x" } }, '"github/-a/b" is not a repository'],
  [{ "github/a/b/c": { runCmd: "x" } }, '"github/a/b/c" is not a repository'],
])("%j: %s", (config, message) => {
  expect(() => parse(config)).toThrow(message);
});

test("an error about invalid JSON does not quote it, because it may contain secrets", () => {
  expect(() => parseConfig('{"brave":{"apiKey":"hush"')).toThrow(/^--config is not JSON; give an object/);
});

describe("unknown server names", () => {
  test("are all reported with their reasons, and with the known names", () => {
    expect(() => checkNames(["memory", "playwright", "grafana", "constructor"])).toThrow(
      '"playwright" cannot be served: it needs a browser, which this template leaves out for its size; ' +
        'the template `desktop` has one; "grafana" cannot be served: no server of this name is in this template; ' +
        '"constructor" cannot be served: no server of this name is in this template. Servers that can be served: ' +
        `${Object.keys(CATALOGUE).join(", ")}, and github/OWNER/REPO with runCmd`,
    );
    expect(() => checkNames(["memory", "github/a/b"])).not.toThrow();
  });

  test("are not in the list of known names", () => {
    expect(Object.keys(NOT_SERVED).filter((name) => name in CATALOGUE)).toEqual([]);
  });
});
