/** Metrics of the ready pool in the Prometheus text format. */
import type { PooledTemplate, PoolReport } from "./pool-report.ts";

export function poolMetrics({ templates, hits, joined, misses }: PoolReport): string {
  // Template ids contain no character that needs escaping.
  const gauge = (name: string, help: string, value: (template: PooledTemplate) => number) => [
    ...head(name, "gauge", help),
    ...templates.map((template) => `${name}{template="${template.templateId}"} ${value(template)}`),
  ];
  const creates = "sandlot_shelf_creates_total";
  const served = Object.entries({ ready: hits, joined, missed: misses });
  return [
    ...gauge("sandlot_shelf_ready", "Sandboxes that wait for a create.", ({ ready }) => ready),
    ...gauge("sandlot_shelf_making", "Sandboxes that are being made ready.", ({ making }) => making),
    ...gauge("sandlot_shelf_target", "Sandboxes that should be ready.", ({ target }) => target),
    ...gauge("sandlot_shelf_floor", "Sandboxes that are kept ready in any case.", ({ floor }) => floor),
    ...head(creates, "counter", "Creates by what served them, since the server started."),
    ...served.map(([by, count]) => `${creates}{served="${by}"} ${count}`),
  ].join("\n");
}

function head(name: string, type: "gauge" | "counter", help: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}
