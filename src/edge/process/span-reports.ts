/** Spans of an edge process until its next report to the server, which exports them. */
import type { FinishedSpan } from "../../base/spans.ts";

/** Maximum spans of one report. */
const EDGE_SPANS_MAX = 2_000;

export interface SpanReport {
  spans: readonly FinishedSpan[];
  /** Spans that did not fit. */
  dropped: number;
}

export class SpanReports {
  #spans: FinishedSpan[] = [];
  #dropped = 0;

  readonly add = (span: FinishedSpan): void => {
    if (this.#spans.length < EDGE_SPANS_MAX) this.#spans.push(span);
    else this.#dropped += 1;
  };

  /** Undefined: there is nothing to report. */
  take(): SpanReport | undefined {
    if (this.#spans.length === 0) return undefined;
    const report = { spans: this.#spans, dropped: this.#dropped };
    this.#spans = [];
    this.#dropped = 0;
    return report;
  }
}
