import { expect, test } from "bun:test";
import type { Kernel, Language } from "./kernel.ts";
import { Kernels } from "./kernels.ts";

/** Each start is finished by the test. */
function startedByHand() {
  const starts: PromiseWithResolvers<Kernel>[] = [];
  const language: Language = {
    name: "python",
    start() {
      starts.push(Promise.withResolvers<Kernel>());
      return starts.at(-1)?.promise ?? Promise.reject(new Error("none"));
    },
  };
  const facts = { identity: () => "one", variables: async () => undefined };
  const kernels = new Kernels(new Map([[language, 1]]), facts);
  return { starts, language, kernels };
}

const kernel = () => ({ ended: new Promise<void>(() => undefined) }) as Kernel;

test("a request takes the spare that is starting, and the next one starts another", async () => {
  const { starts, language, kernels } = startedByHand();
  const refilled = kernels.refill(0);
  await Promise.resolve();
  const [first, second] = [kernels.take(language), kernels.take(language)];
  await Bun.sleep(0);
  expect(starts.length).toBe(2);
  const [spare, other] = [kernel(), kernel()];
  starts[0]?.resolve(spare);
  starts[1]?.resolve(other);
  expect(await Promise.all([first, second])).toEqual([spare, other]);
  await Bun.sleep(0);
  // The spare that was taken is started anew.
  expect(starts.length).toBe(3);
  const next = kernel();
  starts[2]?.resolve(next);
  await refilled;
  expect(await kernels.take(language)).toBe(next);
});

test("a spare that fails to start does not fail its waiting request", async () => {
  const { starts, language, kernels } = startedByHand();
  void kernels.refill(0);
  await Promise.resolve();
  const taken = kernels.take(language);
  starts[0]?.reject(new Error("it does not start"));
  await Bun.sleep(0);
  const other = kernel();
  starts.at(-1)?.resolve(other);
  expect(await taken).toBe(other);
});
