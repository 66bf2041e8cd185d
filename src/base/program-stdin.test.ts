/** Calls that overlap, and a program that closes its stdin while they wait. */
import { expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";
import { writeToStdin } from "./program-stdin.ts";

test.each([10, 5_000, 300_000])("messages of %i bytes that overlap arrive in order", async (size) => {
  const child = Bun.spawn(["cat"], { stdin: "pipe", stdout: "pipe" });
  const messages = Array.from({ length: 20 }, (_, number) => `${String(number).padStart(size, "0")}\n`);
  const sent = Promise.all(messages.map((message) => writeToStdin(child.stdin, message)));
  const read = new Response(child.stdout).text();
  await sent;
  await child.stdin.end();
  expect(await read).toBe(messages.join(""));
});

test.each([10, 5_000, 300_000])(
  "messages of %i bytes that overlap are all refused after the program closed its stdin",
  async (size) => {
    const child = Bun.spawn(["sh", "-c", "exec 0<&-; echo closed; sleep 60"], { stdin: "pipe", stdout: "pipe" });
    const output = child.stdout.getReader();
    await output.read();
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on("unhandledRejection", note);
    try {
      const sent = await Promise.allSettled(
        Array.from({ length: 20 }, () => writeToStdin(child.stdin, "x".repeat(size))),
      );
      expect(sent.map(({ status }) => status)).toEqual(Array(20).fill("rejected"));
      await setImmediate();
      expect(unhandled).toEqual([]);
    } finally {
      process.off("unhandledRejection", note);
      child.kill("SIGKILL");
      await child.exited;
    }
  },
);
