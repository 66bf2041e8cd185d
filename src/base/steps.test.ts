/** A step is recorded with its parent step, and only while a recording is active. */
import { afterEach, describe, expect, test } from "bun:test";
import { inRequest } from "./current-request.ts";
import type { FinishedSpan } from "./spans.ts";
import {
  beginStep,
  noteUse,
  recordCalls,
  recordSteps,
  recordsAnySteps,
  recordsUsage,
  type Step,
  spanOfStep,
  step,
} from "./steps.ts";

afterEach(() => recordSteps(undefined));

/** Each look at the counters finds one millisecond more. */
function recorded(): Step[] {
  const steps: Step[] = [];
  let used = 0;
  recordSteps({ read: () => ({ server: used++ }), write: (each) => steps.push(each) });
  return steps;
}

/** `parent > child` for each, in the order in which they ended. */
function places(steps: readonly Step[]): string[] {
  const nameOf = (number: number | null) => steps.find((each) => each.number === number)?.name ?? "";
  return steps.map(({ name, within }) => `${nameOf(within)} > ${name}`);
}

describe("steps", () => {
  test("have the step that began them as parent, concurrent or not", async () => {
    const steps = recorded();
    await step("whole", async () => {
      await Bun.sleep(1);
      await Promise.all(["left", "right"].map((side) => step(side, () => step(`in ${side}`, () => Bun.sleep(1)))));
      step("at once", () => 1);
    });
    expect(places(steps).sort()).toEqual(
      [" > whole", "left > in left", "right > in right", "whole > at once", "whole > left", "whole > right"].sort(),
    );
  });

  test("have their duration and resource use", async () => {
    const steps = recorded();
    await step("whole", async () => step("part", () => Bun.sleep(5)));
    const [part, whole] = steps;
    expect([part?.uses, whole?.uses]).toEqual([{ server: 1 }, { server: 3 }]);
    expect(part?.wallMs).toBeGreaterThan(3);
    expect(whole?.wallMs).toBeGreaterThanOrEqual(part?.wallMs ?? Number.NaN);
    expect(whole?.beganAt).toBeLessThanOrEqual(part?.beganAt ?? Number.NaN);
  });

  test("hold the notes made within them", async () => {
    const steps = recorded();
    await step("whole", async () => {
      await step("a", async () => noteUse("helpers", 2));
      await step("b", async () => noteUse("helpers", 3));
    });
    expect(steps.map(({ name, uses }) => [name, uses.helpers])).toEqual([
      ["a", 2],
      ["b", 3],
      ["whole", 5],
    ]);
  });

  test("that fail are marked as failed, and the error is rethrown", async () => {
    const steps = recorded();
    const fail = () => {
      throw new Error("no");
    };
    expect(() => step("at once", fail)).toThrow("no");
    await expect(step("later", async () => fail())).rejects.toThrow("no");
    expect(steps.map(({ name, failed }) => [name, failed])).toEqual([
      ["at once", true],
      ["later", true],
    ]);
  });

  test("can be the methods of a class, which keep its private fields", async () => {
    class Disk {
      readonly #size = 7;
      async attach(name: string): Promise<string> {
        return `${name} of ${this.#size}`;
      }
    }
    recordCalls(Disk.prototype, { attach: (name: string) => `attach ${name}` });
    expect(await new Disk().attach("a")).toBe("a of 7");
    const steps = recorded();
    expect(await new Disk().attach("b")).toBe("b of 7");
    expect(steps.map(({ name }) => name)).toEqual(["attach b"]);
  });

  test("are not recorded without a recorder", () => {
    expect(recordsUsage()).toBe(false);
    const steps = recorded();
    const end = beginStep("begun");
    recordSteps(undefined);
    end();
    end();
    beginStep("nothing")();
    noteUse("helpers", 1);
    expect(step("nothing", () => 3)).toBe(3);
    expect(steps.map(({ name }) => name)).toEqual(["begun"]);
  });
});

describe("without counters, steps", () => {
  const trace = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7", isSampled: true };

  function spansRecorded(): (FinishedSpan | undefined)[] {
    const spans: (FinishedSpan | undefined)[] = [];
    recordSteps({ write: (each) => spans.push(spanOfStep(each)) });
    return spans;
  }

  test("of a request are spans within its trace", async () => {
    const spans = spansRecorded();
    await inRequest({ id: "one", trace }, () =>
      step("whole", async () => {
        await Promise.resolve();
        step("part", () => 1);
        expect(() =>
          step("failing", () => {
            throw new Error("no");
          }),
        ).toThrow("no");
      }),
    );
    const whole = spans.find((span) => span?.name === "whole");
    expect(whole).toMatchObject({ traceId: trace.traceId, parentSpanId: trace.spanId, hasFailed: false });
    expect(spans.map((span) => [span?.name, span?.parentSpanId, span?.hasFailed])).toEqual([
      ["part", whole?.spanId, false],
      ["failing", whole?.spanId, true],
      ["whole", trace.spanId, false],
    ]);
  });

  test("that begin after the request, of a trace that is not recorded, or of no request are not recorded", async () => {
    const spans = spansRecorded();
    const over = Promise.withResolvers<void>();
    let behind: Promise<unknown> | undefined;
    await inRequest({ id: "one", trace }, async () => {
      behind = over.promise.then(() => step("left behind", () => 1));
    });
    over.resolve();
    await behind;
    await inRequest({ id: "two", trace: { ...trace, isSampled: false } }, async () => step("unsampled", () => 1));
    step("alone", () => 1);
    beginStep("alone")();
    expect({ spans, isRecording: recordsUsage(), hasSteps: recordsAnySteps() }).toEqual({
      spans: [],
      isRecording: false,
      hasSteps: true,
    });
  });
});
