/** The workflows of GitHub Actions are valid YAML of the expected form, and run commands that exist. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { SYSTEMS } from "../vm/systems.ts";
import { PROJECT, projectFiles, readText } from "./source-files.ts";

const text = z.string().min(1);
const step = z.union([
  z.strictObject({ uses: text.regex(/^actions\/[\w-]+@v\d+$/), with: z.record(text, z.unknown()).optional() }),
  z.strictObject({ name: text.optional(), env: z.record(text, text).optional(), run: text }),
]);
const job = z.strictObject({
  strategy: z.strictObject({ "fail-fast": z.boolean(), matrix: z.record(text, z.array(text)) }).optional(),
  "runs-on": text,
  "timeout-minutes": z.number().int().positive(),
  steps: z.array(step).min(2),
});
const workflow = z.strictObject({
  name: text,
  on: z.record(text, z.unknown()),
  // Without it, a workflow may have every permission of the repository.
  permissions: z.strictObject({ contents: z.enum(["read", "write"]) }),
  concurrency: z.strictObject({ group: text, "cancel-in-progress": text }).optional(),
  jobs: z.record(text, job),
});

const files = projectFiles().filter(({ path }) => path.startsWith(".github/workflows/"));
const { scripts } = JSON.parse(readText("package.json")) as { scripts: Record<string, string> };

test("there are workflows of changes, of each week and of releases", () => {
  const names = ["ci", "long", "release"];
  expect(files.map(({ path }) => path)).toEqual(names.map((name) => `.github/workflows/${name}.yml`));
});

test.each(files)("$path has only known keys, and runs commands that exist", ({ text: source }) => {
  const { jobs } = workflow.parse(Bun.YAML.parse(source));
  const commands = Object.values(jobs).flatMap(({ steps }) => steps.flatMap((each) => ("run" in each ? each.run : [])));
  for (const command of commands) {
    expect(Bun.spawnSync(["bash", "-n", "-c", command]).stderr.toString()).toBe("");
    for (const [, name = ""] of command.matchAll(/npm run ([\w:-]+)/g)) expect(Object.keys(scripts)).toContain(name);
    for (const [path] of command.matchAll(/(?<![\w/.$])\.ci\/\w+/g)) expect(existsSync(join(PROJECT, path))).toBe(true);
  }
  const all = commands.join("\n");
  // In an expression, "${{ … }}" would put a name that a stranger chose into the shell's source.
  expect(all).not.toContain("${{");
  expect(all).toMatch(/npm run check/);
});

test("changes run .ci/run on both architectures", () => {
  const { all } = workflow.parse(Bun.YAML.parse(readText(".github/workflows/ci.yml"))).jobs;
  expect(all?.strategy?.matrix).toEqual({ system: ["ubuntu-latest", "ubuntu-24.04-arm"] });
  expect(all?.steps.at(-1)).toEqual({ run: 'sudo env "PATH=$PATH" .ci/run' });
});

test("each week the long tests, the official clients and virtual machines run", () => {
  const { on, jobs } = workflow.parse(Bun.YAML.parse(readText(".github/workflows/long.yml")));
  expect(on).toMatchObject({ schedule: [{ cron: expect.stringMatching(/^\d+ \d+ \* \* \d$/) }] });
  const runs = Object.values(jobs).map(({ steps }) =>
    steps.flatMap((each) => ("run" in each ? each.run : [])).join("\n"),
  );
  for (const command of ["SANDLOT_TEST_LONG=1 npm test", "npm run matrix", 'npm run vm -- "$SYSTEM"']) {
    expect(runs.filter((each) => each.includes(command))).toHaveLength(1);
  }
  expect(jobs.vm?.strategy?.matrix).toEqual({ system: Object.keys(SYSTEMS) });
});
