/** A relay sandbox with a small share of memory, which a test fills with one word. */
import { EventCounts } from "../../base/event-counts.ts";
import { BOUNDS, type Bounds } from "../program/bounds.ts";
import { SandboxTraffic } from "../program/sandbox-traffic.ts";

export const SHARE_BYTES = 1000;

export function smallSandbox(bounds: Partial<Bounds> = {}): SandboxTraffic {
  const shared = {
    bounds: { ...BOUNDS, ...bounds },
    nameServer: { address: "127.0.0.1", port: 53 },
    report: () => undefined,
    decisions: new EventCounts(),
    isClosed: () => false,
    shareBytes: () => SHARE_BYTES,
    rules: undefined,
    counted: () => () => undefined,
    http2Connections: 0,
  };
  return new SandboxTraffic(shared, { allowRanges: [], allowNames: [], denyRanges: [], proxy: null });
}
