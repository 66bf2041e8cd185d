/** docs/decisions: one page per decision, all in the same form, and a complete index. */
import { expect, test } from "bun:test";
import { tableRows } from "./markdown.ts";
import { projectFiles, readText } from "./source-files.ts";

const FOLDER = "docs/decisions/";
const INDEX = `${FOLDER}README.md`;
const HEADINGS = ["Context", "Decision", "Alternatives", "Consequences", "Measured"];

const pages = projectFiles().filter(({ path }) => path.startsWith(FOLDER) && path !== INDEX);

test("pages are numbered without a gap", () => {
  const numbers = pages.map(({ path }) => /^(\d{3})-[a-z0-9-]+\.md$/.exec(path.slice(FOLDER.length))?.[1]);
  expect(pages.length).toBeGreaterThan(0);
  expect(numbers).toEqual(pages.map((_, at) => String(at + 1).padStart(3, "0")));
});

test("pages have a title, a date, a status and every heading", () => {
  const incomplete = pages.filter(({ path, text }) => {
    const number = path.slice(FOLDER.length, FOLDER.length + 3);
    const top = new RegExp(
      `^# ${number}: .+\n\n- Date: \\d{4}-\\d{2}-\\d{2}\n- Status: (?:accepted|withdrawn|replaced by \\d{3})\n`,
    );
    const headings = [...text.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
    return !top.test(text) || !Bun.deepEquals(headings, HEADINGS);
  });
  expect(incomplete.map(({ path }) => path)).toEqual([]);
});

test("the index has every page with its title and date", () => {
  const documented = tableRows(readText(INDEX), ["Page", "Decision", "Date"]);
  expect(documented).toEqual(
    pages.map(({ path, text }) => {
      const file = path.slice(FOLDER.length);
      const [, title = ""] = /^# \d{3}: (.+)$/m.exec(text) ?? [];
      const [, date = ""] = /^- Date: (.+)$/m.exec(text) ?? [];
      return { Page: `[${file.slice(0, 3)}](${file})`, Decision: title, Date: date };
    }),
  );
});
