/** A sandbox of the relay whose share of memory is small, so that a test fills it with a word. */
import { BOUNDS } from "../program/bounds.ts";
import { Sandbox } from "../program/sandbox.ts";

export const SHARE_BYTES = 1000;

export function smallSandbox(): Sandbox {
  const commons = {
    bounds: BOUNDS,
    nameServer: { address: "127.0.0.1", port: 53 },
    report: () => undefined,
    isClosed: () => false,
    shareBytes: () => SHARE_BYTES,
  };
  return new Sandbox(commons, { allowRanges: [], allowNames: [], denyRanges: [], proxy: null });
}
