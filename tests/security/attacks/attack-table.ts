/**
 * Generates the table of attacks in docs/security.md from the list and the findings. open-attempts.json records, for
 * each isolation runtime and each way to make a sandbox, which parts of each attack succeeded. `npm run attacks`
 * rewrites both; every other run compares.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RUNTIME_NAMES, type RuntimeName } from "../../../src/contract/runtime-name.ts";
import { PROJECT } from "../../conventions/source-files.ts";
import { ATTACKS, type Attack } from "./attacks.ts";

const LIVES = ["booted", "resumed", "forked", "from a snapshot"] as const;
export type Life = (typeof LIVES)[number];

/** The open parts of each attack, by its number; attacks that are fully held are absent. */
export type Open = Record<string, string[]>;
type Results = Partial<Record<RuntimeName, Partial<Record<Life, Open>>>>;

const RESULTS = join(PROJECT, "tests/security/attacks/open-attempts.json");
const PAGE = join(PROJECT, "docs/security.md");
const BEGIN = "<!-- attacks: npm run attacks -->\n";
const END = "<!-- /attacks -->";

export const IS_WRITING = process.env.SANDLOT_TEST_ATTACKS === "write";

export function recorded(): Results {
  return JSON.parse(readFileSync(RESULTS, "utf8"));
}

export function record(runtime: RuntimeName, life: Life, open: Open): void {
  const results = recorded();
  const ofRuntime = { ...results[runtime], [life]: open };
  // In one order, whichever was found last.
  const inOrder = LIVES.flatMap((each) => (ofRuntime[each] === undefined ? [] : [[each, ofRuntime[each]]]));
  const all: Results = { ...results, [runtime]: Object.fromEntries(inOrder) };
  writeFileSync(RESULTS, `${JSON.stringify(all, undefined, 2)}\n`);
  writeTable();
}

/** Writes the recorded findings into the page. */
export function writeTable(): void {
  writeFileSync(PAGE, pageWith(readFileSync(PAGE, "utf8"), tableOf(recorded())));
}

/** The text between the page's two marks. */
export function tableOn(page: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`docs/security.md has lost "${BEGIN.trim()}" or "${END}"`);
  return page.slice(begin + BEGIN.length, end);
}

function pageWith(page: string, table: string): string {
  const begin = page.indexOf(BEGIN) + BEGIN.length;
  return page.slice(0, begin) + table + page.slice(begin + tableOn(page).length);
}

export function tableOf(results: Results): string {
  const rows = ATTACKS.map((attack) => [
    String(attack.number),
    attack.name,
    ...RUNTIME_NAMES.map((runtime) => stateOf(attack, runtime, results[runtime])),
    filesOf(attack).join(", "),
  ]);
  return [["", "Attack", ...RUNTIME_NAMES, "Tests"], ["---", "---", ...RUNTIME_NAMES.map(() => "---"), "---"], ...rows]
    .map((cells) => `| ${cells.join(" | ")} |\n`)
    .join("");
}

function stateOf(attack: Attack, runtime: RuntimeName, results: Results[RuntimeName]): string {
  if (attack.notApplicable !== undefined) return `not applicable: ${attack.notApplicable}`;
  const { either, inside, behindBoth, behindRunsc } = attack;
  const isTried = [either, inside, behindBoth].includes(true) || runtime === "crun" || behindRunsc !== undefined;
  if (!isTried || (inside === true && results === undefined)) return "not tried";
  const found = LIVES.flatMap((life) =>
    (results?.[life]?.[attack.number] ?? []).map((attempt) => `${attempt} (${life})`),
  );
  if (found.length > 0 && runtime === "runsc" && attack.underRunsc !== undefined) {
    return `not applicable: ${attack.underRunsc}`;
  }
  if (found.length > 0) return `open: ${found.join("; ")}`;
  return attack.open === undefined ? "held" : `held; open: ${attack.open}`;
}

function filesOf({ inside, tests = [], behindRunsc = [] }: Attack): string[] {
  const own = inside === true ? ["tests/security/isolation.ts"] : [];
  return [...new Set([...own, ...[...tests, ...behindRunsc].map(([file]) => file)])].map((file) => `\`${file}\``);
}
