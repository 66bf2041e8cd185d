/** The tables of docs/architecture.md list the same folders and import directions as the import rules. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import type { HostEvent } from "../../src/contract/internal/host.ts";
import { MAY_IMPORT } from "./import-rules.ts";
import { tableRows } from "./markdown.ts";
import { readText } from "./source-files.ts";

const page = readText("docs/architecture.md");
/** Every kind of event, which the compiler checks. */
const HOST_EVENTS: Readonly<Record<HostEvent["kind"], true>> = {
  inventory: true,
  reachable: true,
  unreachable: true,
  lost: true,
  trouble: true,
  "rule-requested": true,
  memory: true,
  "build-log": true,
  "log-waits": true,
  log: true,
};
const folders = Object.keys(MAY_IMPORT);
const MODULE_COLUMNS = ["Module", "Its one job", "First file", "May import from other modules"];

describe("docs/architecture.md", () => {
  test("lists every module and its imports from others", () => {
    const rows = tableRows(page, MODULE_COLUMNS);
    const documented = rows.map((row) => [row.Module, namesIn(row["May import from other modules"])] as const);
    const modules = new Set(folders.map(topOf));
    expect(Object.fromEntries(documented)).toEqual(
      Object.fromEntries([...modules].map((module) => [`src/${module}`, importsFromOthers(module)])),
    );
  });

  test("names an existing first file of each module", () => {
    const files = tableRows(page, MODULE_COLUMNS).map((row) => `${row.Module}/${namesIn(row["First file"])[0]}`);
    expect(files.filter((path) => !existsSync(path))).toEqual([]);
  });

  test("lists every sub-folder and its imports", () => {
    const rows = tableRows(page, ["Folder", "Its one job", "Builds on"]);
    const documented = rows.map((row) => [row.Folder, namesIn(row["Builds on"])] as const);
    const subfolders = folders.filter((folder) => folder.includes("/"));
    expect(Object.fromEntries(documented)).toEqual(
      Object.fromEntries(subfolders.map((folder) => [`src/${folder}`, importsFromOwn(folder)])),
    );
  });

  test("has control's reaction to every event of the host", () => {
    const rows = tableRows(page, ["Host event", "Control's reaction"]);
    const documented = rows.flatMap((row) => namesIn(row["Host event"]));
    expect(sorted(documented)).toEqual(sorted(Object.keys(HOST_EVENTS)));
  });

  test("has the purpose of each folder", () => {
    const jobs = [...tableRows(page, MODULE_COLUMNS), ...tableRows(page, ["Folder", "Its one job", "Builds on"])];
    expect(jobs.filter((row) => row["Its one job"] === "")).toEqual([]);
    expect(jobs).toHaveLength(folders.length);
  });
});

/** Other modules by their names, without the folders inside them; single files as they are. */
function importsFromOthers(module: string): string[] {
  const allowed = folders.filter((folder) => topOf(folder) === module).flatMap((folder) => MAY_IMPORT[folder] ?? []);
  const others = allowed.filter((entry) => topOf(entry) !== module);
  return sorted(others.map((entry) => (entry.endsWith(".ts") ? entry : topOf(entry))));
}

/** Folders of the same module, named as seen from it. */
function importsFromOwn(folder: string): string[] {
  const top = topOf(folder);
  const own = (MAY_IMPORT[folder] ?? []).filter((entry) => topOf(entry) === top && !entry.endsWith(".ts"));
  return sorted(own.map((entry) => (entry === top ? top : entry.slice(top.length + 1))));
}

function namesIn(cell = ""): string[] {
  return cell === "nothing" ? [] : sorted(cell.split(", "));
}

function sorted(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}

function topOf(folder: string): string {
  return folder.split("/")[0] ?? "";
}
