/** The documentation, the alerts and the dashboard name the metrics of the code. */
import { beforeAll, expect, test } from "bun:test";
import { ServerMetrics } from "../../src/metrics/server-metrics.ts";
import { EMPTY_READINGS } from "../../src/metrics/testing/empty-readings.ts";
import { tableRows } from "./markdown.ts";
import { readText } from "./source-files.ts";

const RULES = "deploy/prometheus/sandlot.rules.yml";
const RULE_TESTS = "deploy/prometheus/sandlot.rules.test.yml";
const DASHBOARD = "deploy/grafana/sandlot.json";
const USED = /\b(?:sandlot|process)_[a-z_]+/g;
const types = new Map<string, string>();

beforeAll(async () => {
  const metrics = new ServerMetrics({ version: "0", read: async () => EMPTY_READINGS });
  const text = await metrics.text();
  metrics.close();
  for (const [, name = "", type = ""] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) types.set(name, type);
});

test("docs/monitoring.md lists every metric with its type, and no others", () => {
  const rows = tableRows(readText("docs/monitoring.md"), ["Metric", "Type", "Labels", "Meaning"]);
  expect(Object.fromEntries(rows.map(({ Metric, Type }) => [Metric, Type]))).toEqual(Object.fromEntries(types));
});

test.each([RULES, RULE_TESTS, DASHBOARD])("%s names only metrics that exist", (path) => {
  const known = [...types].flatMap(([name, type]) =>
    type === "histogram" ? ["bucket", "sum", "count"].map((series) => `${name}_${series}`) : [name],
  );
  const used = [...readText(path).matchAll(USED)].map(([name]) => name);
  expect(used.length).toBeGreaterThan(10);
  expect(used.filter((name) => !known.includes(name))).toEqual([]);
});

test("docs/monitoring.md lists every alert, and a rule test provokes each", () => {
  const alerts = [...readText(RULES).matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  expect(tableRows(readText("docs/monitoring.md"), ["Alert", "Meaning"]).map(({ Alert }) => Alert)).toEqual(alerts);
  const provoked = [...readText(RULE_TESTS).matchAll(/alertname="(\w+)"/g)].map(([, name]) => name);
  expect([...new Set(provoked)].sort()).toEqual(alerts.toSorted());
});
