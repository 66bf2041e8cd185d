/** Which threads get the higher priority, and that no others do. */
import { expect, test } from "bun:test";
import { getPriority } from "node:os";
import { answerFirst } from "./thread-priority.ts";

/** Starts a separate process on request, and prints its pid. */
function started(...before: string[]) {
  const script = 'read go; sleep 60 & echo "$!"; wait';
  return Bun.spawn([...before, "/bin/sh", "-c", script], { stdin: "pipe", stdout: "pipe" });
}

async function childOf(parent: ReturnType<typeof started>): Promise<number> {
  parent.stdin.write("\n");
  await parent.stdin.flush();
  const { value } = await parent.stdout.getReader().read();
  return Number(new TextDecoder().decode(value));
}

test("one that answers goes first, and what it starts does not", async () => {
  const parent = started();
  expect(answerFirst(parent.pid)).toBe(true);
  const child = await childOf(parent);
  expect([getPriority(parent.pid), getPriority(child)]).toEqual([-5, 0]);
  process.kill(child);
  await parent.exited;
});

test("what the operator has chosen stays", async () => {
  const parent = started("nice", "-n", "7");
  const child = await childOf(parent);
  expect(answerFirst(parent.pid)).toBe(false);
  expect([getPriority(parent.pid), getPriority(child)]).toEqual([7, 7]);
  process.kill(child);
  await parent.exited;
  expect(answerFirst(parent.pid)).toBe(false);
});
