/** Processor time of threads and processes, by the kernel's clocks. */
import { expect, test } from "bun:test";
import { processMs, threadMs, threads } from "./thread-times.ts";

/** Keeps this thread at work for so long, by its own clock. */
function work(ms: number): void {
  const begun = process.cpuUsage();
  for (let used = { user: 0, system: 0 }; used.user + used.system < ms * 1000; ) used = process.cpuUsage(begun);
}

test("a thread's processor time is measured, and its process has at least that", () => {
  const own = threads().filter(({ isFirst }) => isFirst);
  expect(own.map(({ number }) => number)).toEqual([process.pid]);
  const [first = { number: 0 }] = own;
  const before = { thread: threadMs(first), process: processMs(process.pid) ?? 0 };
  work(5);
  const thread = threadMs(first) - before.thread;
  const all = (processMs(process.pid) ?? 0) - before.process;
  expect(thread).toBeGreaterThan(1);
  // In parts of a tick of the kernel's other clock, which has ten milliseconds.
  expect(Number.isInteger(thread / 10)).toBe(false);
  // Looked at a moment apart.
  expect(all).toBeGreaterThan(thread - 1);
});

test("another process has the sum of its threads, and a missing one has none", async () => {
  const child = Bun.spawn(["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; read line"], {
    stdin: "pipe",
    stdout: "pipe",
  });
  await child.stdout.getReader().read();
  const { pid } = child;
  expect(processMs(pid)).toBeGreaterThan(1);
  child.stdin.end();
  await child.exited;
  expect(processMs(pid)).toBeUndefined();
  expect(threadMs({ number: pid })).toBe(0);
});
