/** The subset of Markdown that the documentation tests need: tables, links, headings, and code apart from prose. */

type TableRow = Readonly<Record<string, string>>;

const SEPARATOR_LINE = /^\|(?:\s*:?-+:?\s*\|)+$/;
const FENCE = /^```.*?^```/gms;
const LINK = /\[[^\]]*\]\(([^)\s]+)\)/g;

/** Rows of the only table with these columns, cells without backticks. Throws unless there is exactly one. */
export function tableRows(markdown: string, columns: readonly string[]): TableRow[] {
  const lines = markdown.split("\n");
  const heads = lines.flatMap((line, at) =>
    Bun.deepEquals(cells(line), [...columns]) && SEPARATOR_LINE.test(lines[at + 1] ?? "") ? [at] : [],
  );
  const [head, ...others] = heads;
  if (head === undefined || others.length > 0) {
    throw new Error(`${heads.length} tables have the columns ${columns.join(", ")}; one should`);
  }
  const rows: TableRow[] = [];
  for (const line of lines.slice(head + 2)) {
    if (!line.startsWith("|")) break;
    const row = cells(line);
    if (row.length !== columns.length) throw new Error(`this row has ${row.length} cells: ${line}`);
    rows.push(Object.fromEntries(columns.map((column, at) => [column, row[at] ?? ""])));
  }
  return rows;
}

function cells(line: string): string[] {
  if (!line.startsWith("|")) return [];
  const inner = line.trim().replace(/^\||\|$/g, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.replaceAll("\\|", "|").replaceAll("`", "").trim());
}

/** Where links lead, code blocks left out. */
export function links(markdown: string): string[] {
  return [...withoutFences(markdown).matchAll(LINK)].map(([, target = ""]) => target);
}

/** Anchors of all headings, the way GitHub makes them. */
export function anchors(markdown: string): Set<string> {
  const headings = [...withoutFences(markdown).matchAll(/^#{1,6}\s+(.+)$/gm)].map(([, title = ""]) => title);
  return new Set(
    headings.map((title) =>
      title
        .trim()
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, "")
        .replace(/\s/g, "-"),
    ),
  );
}

function withoutFences(markdown: string): string {
  return markdown.replace(FENCE, "");
}
