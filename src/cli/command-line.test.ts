import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { TeamLimits } from "../store/team-limits.ts";
import { parseWords } from "./command-line.ts";
import { parseLimits } from "./commands/team-limits.ts";
import { COMMANDS } from "./commands.ts";

const MAIN = join(import.meta.dir, "main.ts");

/** Without root and with a setting that no command accepts: help needs neither. */
function sandlot(...words: string[]) {
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, MAIN, ...words], {
    env: { SANDLOT_NO_SUCH_SETTING: "1" },
  });
  return { exitCode, out: stdout.toString(), error: stderr.toString() };
}

describe("help", () => {
  test("has a line for every command", () => {
    const { out } = sandlot("--help");
    const listed = COMMANDS.filter(({ about }) => about !== undefined);
    for (const { usage } of listed) expect(out).toContain(`  sandlot ${usage} `);
    expect(out.split("\n").filter((line) => line.length > 120)).toEqual([]);
    expect([sandlot().out, sandlot("help").out, sandlot("-h").out]).toEqual([out, out, out]);
  });

  test.each(["up", "bench", "templates build", "keys", "limits default hours=1"])(
    "of %s is shown instead of running the command",
    (words) => {
      const shown = sandlot(...words.split(" "), "--help");
      expect(shown).toMatchObject({ exitCode: 0, error: "" });
      expect(shown.out).toContain(`  sandlot ${words.split(" ")[0]}`);
    },
  );

  test("describes every option with its default", () => {
    const { out } = sandlot("help", "bench");
    expect(out).toContain("--rounds N        measurements of each row (default: 20, or 5 with --quick)");
    const options = COMMANDS.flatMap((command) => Object.values(command.options ?? {}));
    expect(options.filter(({ about }) => !about.includes("(default: "))).toEqual([]);
  });
});

/** How each limit of a team is named on the command line. */
const LIMITS: Readonly<Record<keyof TeamLimits, string>> = {
  sandboxes: "sandboxes=",
  runSeconds: "hours=",
  builds: "builds=",
  reads: "reads=",
  changes: "changes=",
  secrets: "secrets=",
  secretVersions: "secretVersions=",
  private: "private=",
  sharedMemory: "sharedMemory=",
  blocked: "blocked=",
};

test.each(Object.values(LIMITS))("help of limits, and the error for an unknown limit, list %s", (limit) => {
  const listed = COMMANDS.find(({ usage }) => usage.startsWith("limits "))?.arguments ?? {};
  expect(Object.keys(listed).filter((argument) => argument.startsWith(limit))).toHaveLength(1);
  expect(() => parseLimits(["unknown=1"])).toThrow(limit);
});

test("--version prints the version of the package", async () => {
  const { version } = await Bun.file(join(import.meta.dir, "../../package.json")).json();
  expect(sandlot("--version")).toEqual({ exitCode: 0, out: `sandlot ${version}\n`, error: "" });
});

describe("invalid arguments are rejected", () => {
  test.each([
    ["bench", ["--rond", "3"], 'bench has no option "--rond"; did you mean "--rounds"?'],
    ["down", ["--everything"], 'down has no option "--everything"; `sandlot down --help` lists its options'],
    ["down", ["now"], 'down: unexpected argument "now"'],
    ["bench", ["--row"], "bench: Option '--row <value>' argument missing"],
    ["bench", ["--quick=yes"], "bench: Option '--quick' does not take an argument"],
    ["templates ready", ["web"], "templates ready: COUNT is missing. Usage:\n  sandlot templates ready NAME COUNT"],
  ])("%s %j", (name, words, message) => {
    expect(() => parseWords(name, words)).toThrow(message);
  });

  test("unknown commands are rejected with the nearest known one", () => {
    const { exitCode, error } = sandlot("dwon");
    expect([exitCode, error]).toEqual([1, 'sandlot: there is no command "dwon"; did you mean "down"?\n']);
    expect(sandlot("help", "nothing").error).toBe('sandlot: there is no command "nothing"; `sandlot help` lists all\n');
  });
});

test("options may repeat, and words after -- are arguments", () => {
  expect(parseWords("up", ["--with", "a,b", "--with=c"]).values.with).toEqual(["a,b", "c"]);
  expect(parseWords("keys create", ["--", "--odd"]).positionals).toEqual(["--odd"]);
});
