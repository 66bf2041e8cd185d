/** Input of a real daemon's processes: order, end, backpressure and bounded memory. */
import { describe, expect, test } from "bun:test";
import { untilTrue } from "../../base/testing/until.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { follow, ProcessCalls, refusal, shell } from "../testing/process-calls.ts";
import { envelope, envelopes, type StreamedEvent } from "../testing/running-guest.ts";

const guest = await guestOfFile();
const processes = new ProcessCalls(guest);

describe("stdin", () => {
  test("is fed in order and closed", async () => {
    const { pid, rest } = await processes.start({ ...shell("cat"), stdin: true });
    for (const letter of "order") await processes.input(pid, letter);
    expect((await processes.closeStdin(pid)).status).toBe(200);
    const result = await follow(rest);
    expect(result.stdout).toBe("order");
    expect(result.end).toMatchObject({ status: "exit status 0" });
  });

  test("can be closed twice, and accepts nothing afterwards", async () => {
    const { pid, rest } = await processes.start(shell("exec sleep 30"));
    const close = () => processes.closeStdin(pid);
    expect([(await close()).status, (await close()).status]).toEqual([200, 200]);
    expect(await refusal(processes.input(pid, "late"))).toEqual([500, "internal"]);
    await processes.kill(pid);
    await follow(rest);
  });

  test("is empty if it was not requested", async () => {
    expect(await processes.run({ ...shell("cat; echo done"), stdin: false })).toMatchObject({ stdout: "done\n" });
  });

  // Guards against a call that waits for its work alone, whatever its deadline.
  test("of a process that does not read accepts only what the pipe holds", async () => {
    const { pid, rest } = await processes.start(shell("exec sleep 30"));
    const blocked = guest.call(
      "process.Process/SendInput",
      { process: { pid }, input: { stdin: Buffer.alloc(1_000_000).toString("base64") } },
      { "Connect-Timeout-Ms": "200" },
    );
    expect(await refusal(blocked)).toEqual([504, "deadline_exceeded"]);
    await processes.kill(pid);
    await follow(rest);
  });

  // Guards against gathering all messages before the first is written.
  test("accepts 100 MB by StreamInput in constant memory", async () => {
    const { pid, rest } = await processes.start(shell("sleep 0.2; wc -c"));
    await Bun.write(`/proc/${guest.pid}/clear_refs`, "5");
    const before = await guest.memoryKib();
    const message = envelope({ data: { input: { stdin: Buffer.alloc(1_000_000, "x").toString("base64") } } });
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent === 0) controller.enqueue(envelope({ start: { process: { pid } } }));
        if (sent++ < 100) controller.enqueue(message);
        else controller.close();
      },
    });
    const response = await guest.fetch("/process.Process/StreamInput", {
      method: "POST",
      headers: { "Content-Type": "application/connect+json" },
      body,
    });
    const events: StreamedEvent[] = [];
    if (response.body) for await (const event of envelopes(response.body)) events.push(event);
    expect(events).toEqual([
      { end: false, json: {} },
      { end: true, json: {} },
    ]);
    await processes.closeStdin(pid);
    expect((await follow(rest)).stdout.trim()).toBe("100000000");
    expect((await guest.memoryKib()).peak - before.now).toBeLessThan(96 * 1024);
  });

  // Guards against responding before the bytes were accepted: all that was not read yet is then in memory.
  test("accepts 100 MB by SendInput in constant memory", async () => {
    const { pid, rest } = await processes.start(shell("sleep 1; wc -c"));
    await Bun.write(`/proc/${guest.pid}/clear_refs`, "5");
    const before = await guest.memoryKib();
    const piece = "x".repeat(4_000_000);
    for (let sent = 0; sent < 25; sent++) expect((await processes.input(pid, piece)).status).toBe(200);
    await processes.closeStdin(pid);
    expect((await follow(rest)).stdout.trim()).toBe("100000000");
    expect((await guest.memoryKib()).peak - before.now).toBeLessThan(80 * 1024);
  });

  // Guards against input for a process that does not read, which would be kept without a bound.
  test("that is unread is bounded", async () => {
    const { pid, rest } = await processes.start(shell("exec sleep 60"));
    // The first input is accepted whatever its size; further input has to fit beside it while it waits.
    const most = Buffer.alloc(40 * 1024 * 1024).toString("base64");
    const send = (deadlineMs: number) =>
      guest.call(
        "process.Process/SendInput",
        { process: { pid }, input: { stdin: most } },
        { "Connect-Timeout-Ms": String(deadlineMs) },
      );
    const waiting = send(60_000);
    await untilTrue(async () => (await refusal(send(2_000)))[1] === "resource_exhausted");
    await processes.kill(pid);
    await waiting;
    await follow(rest);
  });

  test("data before a target is a client error", async () => {
    const response = await guest.fetch("/process.Process/StreamInput", {
      method: "POST",
      headers: { "Content-Type": "application/connect+json" },
      body: envelope({ data: { input: { stdin: "" } } }),
    });
    const events: StreamedEvent[] = [];
    if (response.body) for await (const event of envelopes(response.body)) events.push(event);
    expect(events[0]?.json.error?.code).toBe("invalid_argument");
  });
});
