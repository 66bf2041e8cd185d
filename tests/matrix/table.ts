/** The table of clients in docs/compatibility.md. */

/** What a script of `scripts/` prints for each feature. */
export interface FeatureResult {
  feature: string;
  result: "works" | "absent" | "fails";
  reason?: string;
}

export interface ClientRun {
  client: string;
  version: string;
  results: readonly FeatureResult[];
}

const BEGIN = "<!-- clients: npm run matrix -->";
const END = "<!-- end of clients -->";

export function clientTable(runs: readonly ClientRun[], date: string): string {
  const rows = runs.map(({ client, version, results }) => {
    const named = (result: FeatureResult["result"]) =>
      results.flatMap((each) => (each.result === result ? [each.feature] : [])).join(", ") || "none";
    const working = results.filter(({ result }) => result === "works").length;
    return `| \`${client}\` | ${version} | ${working} | ${named("fails")} | ${named("absent")} | ${date} |`;
  });
  const head = "| Client | Version | Features that work | that fail | that this version does not have | Date |";
  return [head, "| --- | --- | --- | --- | --- | --- |", ...rows].join("\n");
}

export function withClientTable(page: string, table: string): string {
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (after === undefined) throw new Error(`docs/compatibility.md lacks ${BEGIN} or ${END}`);
  return `${before}${BEGIN}\n\n${table}\n\n${END}${after}`;
}
