import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { clientTable, withClientTable } from "./table.ts";

test("a row counts working features and names the others", () => {
  const table = clientTable(
    [
      {
        client: "e2b",
        version: "2.1.0",
        results: [
          { feature: "create", result: "works" },
          { feature: "fork", result: "absent" },
          { feature: "pause", result: "fails", reason: "503" },
        ],
      },
    ],
    "2030-01-02",
  );
  expect(table.split("\n").at(-1)).toBe("| `e2b` | 2.1.0 | 1 | pause | fork | 2030-01-02 |");
});

test("the table replaces the one between its marks, and a page without marks is refused", () => {
  const page = "a\n<!-- clients: npm run matrix -->\nold\n<!-- end of clients -->\nb\n";
  expect(withClientTable(page, "new")).toBe(
    "a\n<!-- clients: npm run matrix -->\n\nnew\n\n<!-- end of clients -->\nb\n",
  );
  expect(() => withClientTable("a\n", "new")).toThrow("lacks <!-- clients");
});

test.each([
  ["e2b", "e2b.mjs"],
  ["@e2b/code-interpreter", "code-interpreter.mjs"],
  ["@e2b/desktop", "desktop.mjs"],
  ["@e2b/cli", "cli.mjs"],
])("the page lists the features in the script of %s", (client, script) => {
  const source = readFileSync(join(import.meta.dir, "scripts", script), "utf8");
  const features = [...source.matchAll(/^ {2}"?([\w ]+)"?: async \(/gm)].map(([, name]) => name);
  const page = readFileSync(join(import.meta.dir, "../../docs/compatibility.md"), "utf8");
  expect(features.length).toBeGreaterThan(5);
  expect(page).toContain(`| \`${client}\` | ${features.join(", ")} |`);
});
