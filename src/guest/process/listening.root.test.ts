/**
 * Which listeners receive which events of a process, and what a slow listener costs: the queue alone, a process with
 * injected bounds, a real daemon.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { timed } from "../../base/testing/timed.ts";
import { until, untilStill, untilTrue } from "../../base/testing/until.ts";
import { Fault } from "../../contract/fault.ts";
import { OUTPUT_TOGETHER_MAX_BYTES } from "../limits.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { follow, nextPid, nextText, ProcessCalls, shell } from "../testing/process-calls.ts";
import { GuestProcess, OUTPUT_DRAIN_AFTER_SIGNAL_MS } from "./guest-process.ts";
import type { OutputPiece } from "./output-envelopes.ts";
import { spawnOnPipes } from "./pipes.ts";
import { ProcessTable } from "./process-table.ts";
import { type ProcessEventInit, SUBSCRIBERS_PER_PROCESS_MAX, Subscription } from "./subscription.ts";
import { spawnInTerminal } from "./terminal.ts";

const env = { PATH: process.env.PATH ?? "" };
const command = (script: string) => ({
  argv: ["/bin/sh", "-c", script],
  argv0: "/bin/sh",
  cwd: "/",
  env,
  uid: 0,
  gid: 0,
});
const QUIET_MS = 10_000;
const chunk = (byte: number, size = 1): OutputPiece[] => [{ kind: "stdout", bytes: new Uint8Array(size).fill(byte) }];

/** Takes output as it comes, until the end. */
async function drain(listener: Subscription, quietMs = QUIET_MS): Promise<number> {
  let total = 0;
  const take = () => {
    for (const { bytes } of listener.takeOutput()) total += bytes.length;
  };
  listener.onOutput = () => void setImmediate(take);
  take();
  await listener.ended(quietMs);
  return total;
}

describe("a listener", () => {
  const listen = (bufferBytes: number, stalledMs = 60_000) =>
    new Subscription(() => undefined, { bufferBytes, stalledMs });

  const end: ProcessEventInit = { event: { case: "end", value: { exited: true } } };
  const taken = (listener: Subscription) => listener.takeOutput().flatMap(({ bytes }) => [...bytes]);

  test("gets output in order, and the end after all of it", async () => {
    const listener = listen(10_000);
    let reported = 0;
    listener.onOutput = () => reported++;
    listener.offer(chunk(1));
    listener.offer(chunk(2));
    expect(reported).toBe(2);
    let ended: unknown;
    const taking = listener.ended(QUIET_MS).then((event) => {
      ended = event;
    });
    // Guards against waking a reader while output still waits.
    listener.finish(end);
    await Bun.sleep(0);
    expect(ended).toBeUndefined();
    expect(taken(listener)).toEqual([1, 2]);
    await taking;
    expect([ended, taken(listener)]).toEqual([end, []]);
  });

  test("blocks the source while it is full, and gets bounded pieces", async () => {
    const listener = listen(OUTPUT_TOGETHER_MAX_BYTES);
    expect(listener.offer(chunk(1, 1000))).toBeUndefined();
    const room = listener.offer([...chunk(2, OUTPUT_TOGETHER_MAX_BYTES - 1000), ...chunk(3)]);
    expect(room).toBeDefined();
    expect(taken(listener).length).toBe(OUTPUT_TOGETHER_MAX_BYTES);
    await room;
    expect(taken(listener)).toEqual([3]);
  });

  // Guards against counting from the last output instead of the last read.
  timed("is idle only after a time without reading", async () => {
    const listener = listen(10_000);
    const idle = listener.ended(300);
    const began = performance.now();
    for (let at = 0; at < 10; at++) {
      await Bun.sleep(50);
      listener.offer(chunk(at));
      listener.takeOutput();
    }
    expect(await idle).toBe("idle");
    expect(performance.now() - began).toBeGreaterThan(750);
  });

  // Guards against a closed listener that leaves the source waiting for room.
  test("that is closed has no effect", async () => {
    const listener = listen(100);
    const room = listener.offer(chunk(1));
    listener.close();
    await room;
    expect(listener.offer(chunk(2))).toBeUndefined();
    expect(await listener.ended(QUIET_MS)).toBe("closed");
  });
});

describe("the listeners of one process", () => {
  test("each get all output", async () => {
    const counted = new GuestProcess((sink) => spawnOnPipes(command("head -c 3000000 /dev/zero"), false, sink));
    const listeners = [counted.subscribe(), counted.subscribe(), counted.subscribe()];
    expect(await Promise.all(listeners.map((listener) => drain(listener)))).toEqual([3_000_000, 3_000_000, 3_000_000]);
  });

  test("are bounded in number, and a closed one frees its place", async () => {
    const received = new GuestProcess((sink) => spawnOnPipes(command("cat"), true, sink));
    const listeners = Array.from({ length: SUBSCRIBERS_PER_PROCESS_MAX }, () => received.subscribe());
    expect(() => received.subscribe()).toThrow(
      expect.objectContaining({
        status: 429,
        errorCode: "resource_exhausted",
        message: expect.stringContaining(`a process has at most ${SUBSCRIBERS_PER_PROCESS_MAX} listeners`),
      }),
    );
    listeners[0]?.close();
    received.subscribe();
    await received.closeStdin();
    await received.ended;
  });

  // Guards against a process that waits for its first listener.
  test("if there are none, output is discarded and the process continues", async () => {
    const unheard = new GuestProcess((sink) => spawnOnPipes(command("head -c 3000000 /dev/zero; exit 4"), false, sink));
    expect((await unheard.ended).exitCode).toBe(4);
  });

  const carriers = [
    [
      "pipes",
      (script: string) => (sink: Parameters<typeof spawnOnPipes>[2]) => spawnOnPipes(command(script), false, sink),
    ],
    [
      "a terminal",
      (script: string) => (sink: Parameters<typeof spawnOnPipes>[2]) =>
        spawnInTerminal(command(script), { cols: 80, rows: 24 }, sink),
    ],
  ] as const;

  // Guards against a publisher that never pauses the process.
  test.each(carriers)("block the process on %s while one is slow, and lose nothing", async (_, carrier) => {
    const bounds = { bufferBytes: 100_000, stalledMs: 60_000 };
    const bytes = 4_000_000;
    const source = new GuestProcess(carrier(`head -c ${bytes} /dev/zero; echo; exec sleep 30`), {}, bounds);
    const [slow, fast] = [source.subscribe(), source.subscribe()];
    const received = await drain(fast, 2_000);
    fast.close();
    expect(received).toBeGreaterThan(0);
    expect(received).toBeLessThan(bytes / 2);
    expect(await drain(slow, 2_000)).toBeGreaterThanOrEqual(bytes);
    source.signal("SIGKILL");
    await source.ended;
  });

  // Guards against reporting the end a fixed time after the process has gone.
  test("get all output of a signalled process before its end, however slow they are", async () => {
    const [go, written] = [`${guest.folder}/go`, `${guest.folder}/written`];
    const script = `printf x; until [ -e ${go} ]; do sleep 0.01; done; head -c 50000 /dev/zero; : > ${written}; exec sleep 600`;
    const source = new GuestProcess(
      (sink) => spawnOnPipes(command(script), false, sink),
      {},
      { bufferBytes: 0, stalledMs: 60_000 },
    );
    const slow = source.subscribe();
    await until("it is held back", () => source.byteCounts.stdout === 1);
    writeFileSync(go, "");
    await until("it has written", () => existsSync(written));
    source.signal("SIGKILL");
    await until("it has gone", () => !existsSync(`/proc/${source.pid}`));
    await Bun.sleep(OUTPUT_DRAIN_AFTER_SIGNAL_MS * 2);
    expect(await drain(slow)).toBe(50_001);
  });

  // Guards against one stalled listener that blocks the others.
  test.each(carriers)("continue without the one that stalled (%s)", async (_, carrier) => {
    // It holds for the reader, too, which a busy machine may keep from its turn.
    const bounds = { bufferBytes: 100_000, stalledMs: 1_000 };
    const source = new GuestProcess(carrier("head -c 2000000 /dev/zero"), {}, bounds);
    const [stalled, reader] = [source.subscribe(), source.subscribe()];
    expect(await drain(reader)).toBe(2_000_000);
    const reported = await stalled.ended(QUIET_MS).catch((thrown: unknown) => thrown);
    expect(reported).toMatchObject({ errorCode: "resource_exhausted" });
  });
});

describe("the memory of the table", () => {
  const sleeper = (tag?: string) => new GuestProcess((sink) => spawnOnPipes(command("exit 5"), false, sink), { tag });
  const by = (selector: { case: "pid"; value: number } | { case: "tag"; value: string }) =>
    ({ $typeName: "process.ProcessSelector", selector }) as const;

  // Guards against a table that keeps ended processes forever, and one that keeps none.
  timed("keeps an ended process for a while", async () => {
    const table = new ProcessTable(100);
    const gone = sleeper();
    table.add(gone);
    await gone.ended;
    const selector = by({ case: "pid", value: gone.pid });
    expect(table.find(selector)).toMatchObject({ pid: gone.pid, end: { exitCode: 5 } });
    expect(() => table.findRunning(selector)).toThrow("no running process");
    const forgotten = () => {
      try {
        table.find(selector);
        return false;
      } catch (thrown) {
        return thrown instanceof Fault;
      }
    };
    const began = performance.now();
    await untilTrue(() => forgotten());
    expect(performance.now() - began).toBeLessThan(2_000);
  });

  // Guards against a table that removes nothing when a process is added.
  test("a new process with the same tag replaces it", async () => {
    const table = new ProcessTable();
    const first = sleeper("web");
    table.add(first);
    await first.ended;
    const second = sleeper("web");
    table.add(second);
    expect(table.find(by({ case: "tag", value: "web" })).pid).toBe(second.pid);
    expect(() => table.find(by({ case: "pid", value: first.pid }))).toThrow(Fault);
    await second.ended;
  });
});

const guest = await guestOfFile();
const processes = new ProcessCalls(guest);

describe("a daemon's streams", () => {
  test("Connect gets later output only", async () => {
    const { pid, rest: first } = await processes.start(shell("echo before; read go; echo after"));
    expect(await nextText(first, "stdout")).toBe("before\n");
    const second = processes.connect({ pid });
    expect(await nextPid(second)).toBe(pid);
    await processes.input(pid, "\n");
    expect(await follow(second)).toMatchObject({ stdout: "after\n", stderr: "", end: { status: "exit status 0" } });
    await first.return(undefined);
  });

  timed("keepalives are sent without output, only after the start", async () => {
    const headers = { "Keepalive-Ping-Interval": "1" };
    const kinds: string[] = [];
    for await (const { end, json } of guest.stream("process.Process/Start", shell("sleep 2.4; echo x"), headers)) {
      kinds.push(end ? "trailer" : (Object.keys(json.event ?? {})[0] ?? ""));
    }
    expect(kinds).toEqual(["start", "keepalive", "keepalive", "data", "end", "trailer"]);
  });

  // Guards against killing the process when its client leaves, and waiting for a new listener.
  test("a client that reads nothing blocks the process until it disconnects", async () => {
    const { pid, rest: stalled } = await processes.start(shell("trap '' PIPE; exec cat /dev/zero"));
    const written = () => Number(/wchar: (\d+)/.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);
    const before = await untilStill(written);
    expect((await guest.memoryKib()).now).toBeLessThan(160 * 1024);
    await stalled.return(undefined);
    await untilTrue(async () => {
      expect((await guest.fetch("/health")).status).toBe(204);
      return written() >= before + 200_000_000;
    });
    expect((await guest.memoryKib()).peak).toBeLessThan(200 * 1024);
    expect((await processes.kill(pid)).status).toBe(200);
  });
});
