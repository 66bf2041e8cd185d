/** docs/monitoring.md lists the metrics of the code. */
import { expect, test } from "bun:test";
import { ServerMetrics } from "../../src/metrics/server-metrics.ts";
import { EMPTY_READINGS } from "../../src/metrics/testing/empty-readings.ts";
import { tableRows } from "./markdown.ts";
import { readText } from "./source-files.ts";

test("docs/monitoring.md lists every metric with its type, and no others", async () => {
  const metrics = new ServerMetrics({ version: "0", read: async () => EMPTY_READINGS });
  const text = await metrics.text();
  metrics.close();
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type]);
  const rows = tableRows(readText("docs/monitoring.md"), ["Metric", "Type", "Labels", "Meaning"]);
  expect(Object.fromEntries(rows.map(({ Metric, Type }) => [Metric, Type]))).toEqual(Object.fromEntries(types));
});
