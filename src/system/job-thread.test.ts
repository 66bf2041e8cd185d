import { afterEach, expect, test } from "bun:test";
import { JobThread } from "./job-thread.ts";
import type { OddJob } from "./testing/job-thread-program.ts";

const threads: JobThread<OddJob>[] = [];
afterEach(() => {
  for (const thread of threads.splice(0)) thread.close();
});

function newThread(withinMs = 60_000): JobThread<OddJob> {
  const program = new URL("./testing/job-thread-program.ts", import.meta.url);
  const thread = new JobThread<OddJob>({ program, what: "the job could not be done", withinMs });
  threads.push(thread);
  return thread;
}

test("each job gets its own result", async () => {
  const thread = newThread();
  expect(await Promise.all([thread.do("done"), thread.do("slow"), thread.do("done")])).toEqual([true, false, true]);
});

test("a failure has its status and message, and the next job runs", async () => {
  const thread = newThread();
  await expect(thread.do("refused")).rejects.toMatchObject({ status: 404, message: "there is none" });
  expect(await thread.do("done")).toBe(true);
});

test("no free loop device is a 503 with Retry-After", async () => {
  await expect(newThread().do("busy")).rejects.toMatchObject({
    status: 503,
    message: "no free device; the machine may be overloaded",
    headers: { "Retry-After": "5" },
  });
});

test("a shortage is a 503 with Retry-After, without a path", async () => {
  await expect(newThread().do("short")).rejects.toMatchObject({
    status: 503,
    message: "the job could not be done (EMFILE); the machine may be overloaded",
    headers: { "Retry-After": "5" },
    cause: { message: "open '/secret/path'" },
  });
});

test("a caller that has waited too long gets a 503; the thread continues", async () => {
  const thread = newThread(1);
  await expect(thread.do("slow")).rejects.toMatchObject({ status: 503 });
  await expect(thread.do("slow")).rejects.toThrow("the job could not be done within 1 ms");
});

test("a thread that must not continue is replaced, and all waiting calls fail", async () => {
  const thread = newThread();
  const [fatal, next] = await Promise.allSettled([thread.do("fatal"), thread.do("done")]);
  expect([fatal, next]).toMatchObject([{ status: "rejected" }, { status: "rejected" }]);
  expect(fatal).toMatchObject({ reason: { message: "the job could not be done: the thread for it has ended" } });
  expect(await thread.do("done")).toBe(true);
});
