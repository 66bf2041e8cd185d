/** The listener for Prometheus: `GET /metrics` and nothing else. */
import { Fault } from "../contract/fault.ts";
import type { ServerMetrics } from "./server-metrics.ts";

const TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8";
const IDLE_SECONDS = 30;

export async function serveMetrics(
  { hostname, port }: { hostname: string; port: number },
  metrics: Pick<ServerMetrics, "text">,
): Promise<{ stop(): Promise<void> }> {
  try {
    const server = Bun.serve({
      hostname,
      port,
      development: false,
      idleTimeout: IDLE_SECONDS,
      maxRequestBodySize: 0,
      routes: {
        "/metrics": {
          GET: async () => new Response(await metrics.text(), { headers: { "Content-Type": TEXT_FORMAT } }),
        },
      },
      fetch: () => new Response("GET /metrics has the metrics\n", { status: 404 }),
      error: () => new Response("the metrics could not be read; the server's log has the reason\n", { status: 500 }),
    });
    return { stop: () => server.stop(true) };
  } catch (cause) {
    const fix = "FIX: free the port, or choose one with SANDLOT_METRICS";
    throw new Fault(500, `cannot listen on ${hostname}:${port} for metrics. ${fix}`, { cause });
  }
}
