/** How the host reads the journals of guests: honest ones, and programs that root has put in their place. */
import { afterEach, describe, expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { type Clock, systemClock } from "../../base/clock.ts";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { until, untilStill, untilTrue } from "../../base/testing/until.ts";
import type { LogEvent } from "../../contract/internal/host.ts";
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import type { LogLine } from "../../contract/sandbox-log.ts";
import { GuestJournals, JOURNAL_BURST_MAX_BYTES, JOURNAL_TURN } from "./guest-journal.ts";
import { readJournalLine } from "./journal-line.ts";

const JOURNAL = "11111111-2222-4333-8444-555555555555";
const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

const greeting = `${JSON.stringify({ journal: JOURNAL })}\n`;
const entry = (seq: number, changes: Record<string, unknown> = {}) => {
  const line = { seq, at: Date.now(), level: "info", logger: "process", message: `m${seq}`, fields: {}, ...changes };
  return `${JSON.stringify(line)}\n`;
};

/** Answers every request on its own port with whatever `say` writes. */
async function guest(say: (socket: Socket, request: string) => void) {
  const sockets = new Set<Socket>();
  const requests: string[] = [];
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", (data) => {
      requests.push(data.toString());
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n");
      say(socket, data.toString());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as { port: number }).port, requests, sockets };
}

/** The recipient of journal lines; acknowledges them as control does. */
class Reader {
  readonly lines: LogLine[] = [];
  position: string | null = null;
  isReady = true;
  /** How often it was asked for its position. */
  requested = 0;

  constructor(readonly journals: GuestJournals) {
    journals.onEvent((event) => this.hear(event));
  }

  hear(event: LogEvent): void {
    if (event.kind === "log-waits") this.requested++;
    if (!this.isReady) {
      this.journals.defer(event.id);
      return;
    }
    if (event.kind === "log") {
      this.lines.push(...event.lines);
      this.position = event.position ?? this.position;
    }
    this.journals.acknowledge(event.id, event.kind === "log" ? event.position : this.position);
  }

  async until(isSo: (reader: Reader) => boolean): Promise<void> {
    await until(
      () => `it is so; heard ${JSON.stringify(this.lines.slice(-3))}`,
      () => isSo(this),
    );
  }
}

function follow(port: number, options: { isReady?: boolean; isNew?: boolean; clock?: ManualClock } = {}) {
  const journals = new GuestJournals(port, options.clock);
  open.push(() => journals.close());
  const reader = new Reader(journals);
  reader.isReady = options.isReady ?? true;
  journals.follow("i1", { address: "127.0.0.1", secret: "shared" }, options.isNew);
  return { journals, reader };
}

/** No attempt is in progress; the next one waits for the clock. */
const untilPaused = (clock: ManualClock) => until("the next attempt waits", () => clock.timers === 1);

const pass = (clock: ManualClock, ms: number) => clock.advance(ms, async () => undefined);

const received = (count: number) => (reader: Reader) => reader.lines.length >= count;

describe("an honest guest", () => {
  test("is read line by line, however its bytes are split", async () => {
    const { port, requests } = await guest((socket) => {
      const bytes = Buffer.from(greeting + entry(1, { message: "héllo 🙂" }) + entry(2, { fields: { pid: "7" } }));
      for (let at = 0; at < bytes.length; at += 7) socket.write(bytes.subarray(at, at + 7));
    });
    const { reader } = follow(port);
    await reader.until(received(2));
    expect(reader.lines[0]).toMatchObject({ level: "info", message: "héllo 🙂", fields: { logger: "process" } });
    expect(reader.lines[1]?.fields).toEqual({ pid: "7", logger: "process" });
    expect(reader.position).toBe(`${JOURNAL}:2`);
    expect(requests[0]?.toLowerCase()).toContain("x-sandlot-control: shared");
  });

  test("is asked for the lines after the last stored one, after a lost connection", async () => {
    let times = 0;
    const { port, requests } = await guest((socket) => {
      socket.write(greeting);
      if (times++ === 0) socket.end(entry(41));
      else socket.write(entry(42));
    });
    const { reader } = follow(port);
    await reader.until(received(2));
    expect(requests[1]).toContain(`journal=${JOURNAL}&after=41`);
    expect(reader.lines.map(({ message }) => message)).toEqual(["m41", "m42"]);
  });

  test("whose sandbox is not recorded yet is read once it is", async () => {
    const { port, requests } = await guest((socket) => socket.write(greeting + entry(1)));
    const clock = new ManualClock(0);
    const { reader } = follow(port, { isReady: false, clock });
    await untilPaused(clock);
    expect([reader.requested, requests]).toEqual([1, []]);
    reader.isReady = true;
    await pass(clock, 100);
    await reader.until(received(1));
  });

  test("that dropped lines reports their number", async () => {
    const { port } = await guest((socket) =>
      socket.write(`${greeting}${JSON.stringify({ seq: 9, dropped: 9 })}\n${entry(10)}`),
    );
    const { reader } = follow(port);
    await reader.until(received(2));
    expect(reader.lines[0]).toMatchObject({ level: "warn", fields: { logger: "sandbox", dropped: "9" } });
  });

  test("is disconnected at once, and read no further", async () => {
    const { port, sockets } = await guest((socket) => socket.write(greeting + entry(1)));
    const { journals, reader } = follow(port);
    await reader.until(received(1));
    const closed = Promise.all([...sockets].map((socket) => new Promise((resolve) => socket.once("close", resolve))));
    journals.unfollow("i1");
    await closed;
    journals.follow("i1", { address: "127.0.0.1", secret: "shared" });
    await reader.until(received(2));
  });

  test("of a new sandbox is read at once, without a question for the position", async () => {
    const { port } = await guest((socket) => socket.write(greeting + entry(1)));
    const { reader } = follow(port, { isNew: true });
    await reader.until(received(1));
    expect(reader.requested).toBe(0);
  });

  test("whose lines are postponed sends them again, each stored once", async () => {
    const { port, requests } = await guest((socket, request) => {
      const after = Number(/after=(\d+)/.exec(request)?.[1]);
      socket.write(greeting);
      for (let seq = after + 1; seq <= 3; seq++) socket.write(entry(seq));
    });
    const clock = new ManualClock(0);
    const { reader } = follow(port, { isNew: true, isReady: false, clock });
    await untilPaused(clock);
    expect([requests.length, reader.lines]).toEqual([1, []]);
    reader.isReady = true;
    await pass(clock, 100);
    await reader.until(received(3));
    expect(reader.lines.map(({ message }) => message)).toEqual(["m1", "m2", "m3"]);
  });

  test("is read one piece at a time: the next after the previous was stored", async () => {
    let more: (() => void) | undefined;
    const { port } = await guest((socket) => {
      socket.write(greeting + entry(1));
      more = () => void socket.write(entry(2));
    });
    const journals = new GuestJournals(port);
    open.push(() => journals.close());
    const reported: LogEvent[] = [];
    journals.onEvent((event) => void reported.push(event));
    journals.follow("i1", { address: "127.0.0.1", secret: "shared" }, true);
    await untilTrue(() => reported.length !== 0);
    more?.();
    // A later request is answered later than these bytes arrive.
    await (await fetch(`http://127.0.0.1:${port}`)).body?.cancel();
    expect(reported).toMatchObject([{ kind: "log", position: `${JOURNAL}:1` }]);
    journals.acknowledge("i1", `${JOURNAL}:1`);
    await untilTrue(() => reported.length !== 1);
    expect(reported[1]).toMatchObject({ kind: "log", position: `${JOURNAL}:2` });
    journals.acknowledge("i1", `${JOURNAL}:2`);
    // An acknowledgement without a waiting journal has no effect.
    journals.acknowledge("i1", `${JOURNAL}:2`);
    journals.defer("i2");
  });

  test("that is about to end is still read to its last lines, then disconnected", async () => {
    const { port, sockets } = await guest((socket) => socket.write(greeting + entry(1)));
    const clock = new ManualClock(0);
    const journals = new GuestJournals(port, clock);
    open.push(() => journals.close());
    const reported: LogEvent[] = [];
    journals.onEvent((event) => void reported.push(event));
    journals.follow("i1", { address: "127.0.0.1", secret: "shared" }, true);
    journals.unfollowSoon("i1");
    await untilTrue(() => reported.length > 0);
    expect(reported).toMatchObject([{ kind: "log", lines: [{ message: "m1" }] }]);
    const closed = Promise.all([...sockets].map((socket) => new Promise((resolve) => socket.once("close", resolve))));
    await pass(clock, 50);
    await closed;
  });
});

describe("a lying guest", () => {
  test.each([
    ["no JSON", `${greeting}oops\n`],
    ["no greeting", entry(1)],
    ["a second greeting", greeting + greeting],
    ["numbers that fall", greeting + entry(5) + entry(4)],
    ["an unknown level", greeting + entry(1, { level: "fatal" })],
    ["a logger that is not its own", greeting + entry(1, { logger: "sandbox" })],
    ["fields that are no texts", greeting + entry(1, { fields: { a: 1 } })],
    [
      "too many fields",
      greeting + entry(1, { fields: Object.fromEntries(Array.from({ length: 99 }, (_, n) => [n, ""])) }),
    ],
    ["a long text", greeting + entry(1, { message: "x".repeat(5_000) })],
    ["a line without an end", greeting + "x".repeat(100_000)],
    ["a list", `${greeting}[]\n`],
    ["a number beyond counting", `${greeting}{"seq":1e300,"dropped":1}\n`],
  ])("that sends %s is disconnected, and its log has one note", async (_what, sent) => {
    const { port, requests } = await guest((socket) => socket.write(sent));
    const clock = new ManualClock(0);
    const { reader } = follow(port, { clock });
    await reader.until((all) => all.lines.some(({ fields }) => fields.logger === "sandbox"));
    await untilPaused(clock);
    await pass(clock, 4_999);
    expect([requests.length, clock.timers]).toEqual([1, 1]);
    await pass(clock, 1);
    await untilTrue(() => requests.length === 2);
    await untilPaused(clock);
    expect(reader.lines.filter(({ message }) => message.startsWith("The runtime sent"))).toHaveLength(1);
    expect(reader.lines.every(({ message }) => message.length < 1_100)).toBe(true);
  });

  test("that floods is disconnected, without growing the server", async () => {
    let sent = 0;
    const { port } = await guest((socket) => {
      socket.write(greeting);
      let seq = 0;
      const flood = () => {
        while (!socket.destroyed) {
          const piece = Array.from({ length: 100 }, () => entry(++seq, { message: "x".repeat(900) })).join("");
          sent += piece.length;
          if (!socket.write(piece)) return void socket.once("drain", flood);
        }
      };
      flood();
    });
    const before = process.memoryUsage().rss;
    const { reader } = follow(port);
    await reader.until((all) => all.lines.some(({ message }) => message.includes("more than is kept")));
    const taken = reader.lines.reduce((sum, line) => sum + JSON.stringify(line).length, 0);
    expect(taken).toBeLessThanOrEqual(JOURNAL_BURST_MAX_BYTES);
    // After the host hangs up, the guest sends no more. While the host listens, it would never end.
    await untilStill(() => sent);
    expect(process.memoryUsage().rss - before).toBeLessThan(128 * 1024 * 1024);
  });

  test("that disconnects at once is tried again after a delay, which doubles", async () => {
    const { port, requests } = await guest((socket) => socket.end());
    const clock = new ManualClock(0);
    follow(port, { clock });
    for (const [nth, delayMs] of [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].entries()) {
      await until("the guest was asked once more", () => requests.length === nth + 1);
      await untilPaused(clock);
      await pass(clock, delayMs - 1);
      expect([requests.length, clock.timers]).toEqual([nth + 1, 1]);
      await pass(clock, 1);
    }
  });
});

describe("the time of a line", () => {
  const now = 1_800_000_000_000;
  const at = (claimed: unknown) => {
    const line = readJournalLine(entry(1, { at: claimed }), now);
    return line?.kind === "entry" ? line.line.at : undefined;
  };

  test("is the guest's if plausible, else that of its arrival", () => {
    expect(at(now - 5_000)).toBe(now - 5_000);
    for (const lie of [now + 1, now - ACTIVITY_KEPT_MS - 1, -1, 0, 1.5, "yesterday", null, 1e300])
      expect(at(lie)).toBe(now);
  });
});

describe("many at once", () => {
  const numbers = Array.from({ length: 3 * JOURNAL_TURN }, (_, at) => at);

  /** Hears of all, which say their number. */
  async function manyFollowed(clock: Clock = systemClock) {
    const { port, requests } = await guest((socket) => socket.write(greeting + entry(1)));
    const journals = new GuestJournals(port, clock);
    const calls: string[] = [];
    /** How many ask in each turn of the event loop. */
    const turns: number[] = [];
    let isNewTurn = true;
    journals.onEvent((event) => {
      if (event.kind === "log-waits") {
        calls.push(event.id);
        if (isNewTurn) turns.push(0);
        if (isNewTurn) setImmediate(() => (isNewTurn = true));
        isNewTurn = false;
        turns.push((turns.pop() ?? 0) + 1);
      }
      journals.acknowledge(event.id, event.kind === "log" ? event.position : null);
    });
    open.push(() => journals.close());
    for (const at of numbers) journals.followSoon(`i${at}`, { address: "127.0.0.1", secret: "shared" });
    return { journals, calls, turns, requests };
  }

  test("are connected a few at a time, until all are", async () => {
    const { calls, turns, requests } = await manyFollowed();
    expect(calls).toEqual([]);
    await untilTrue(() => requests.length >= numbers.length);
    expect(new Set(calls)).toEqual(new Set(numbers.map((at) => `i${at}`)));
    expect(turns).toEqual([JOURNAL_TURN, JOURNAL_TURN, JOURNAL_TURN]);
  });

  test("are skipped if they are left before their turn", async () => {
    const { journals, calls, requests } = await manyFollowed();
    journals.unfollow("i1");
    journals.unfollowSoon("i2");
    await untilTrue(() => requests.length >= numbers.length - 2);
    expect(new Set(calls)).toEqual(new Set(numbers.filter((at) => at !== 1 && at !== 2).map((at) => `i${at}`)));
  });

  test("have no connections after a close", async () => {
    const clock = new ManualClock(0);
    const { journals, calls } = await manyFollowed(clock);
    expect(clock.timers).toBe(1);
    journals.close();
    expect(clock.timers).toBe(0);
    expect(calls).toEqual([]);
  });
});
