import { describe, expect, test } from "bun:test";
import { parseTraceparent, traceparentOf } from "./trace-context.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

describe("a traceparent", () => {
  test.each([
    [`00-${TRACE}-${SPAN}-01`, true],
    [`00-${TRACE}-${SPAN}-00`, false],
    [`00-${TRACE}-${SPAN}-03`, true],
    [`cc-${TRACE}-${SPAN}-01-more`, true],
  ])("%s is read", (header, isSampled) => {
    const context = { traceId: TRACE, spanId: SPAN, isSampled };
    expect(parseTraceparent(header)).toEqual(context);
    expect(parseTraceparent(traceparentOf(context))).toEqual(context);
  });

  test.each([
    null,
    "",
    "00",
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-1`,
    `00-${"0".repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${"0".repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`,
    `cc-${TRACE}-${SPAN}-01-${"x".repeat(300)}`,
  ])("%p is none", (header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });
});
