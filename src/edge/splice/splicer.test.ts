/** Splicing over real loopback connections: one side belongs to the test, the other is handed to the kernel. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closeSync, openSync, readdirSync } from "node:fs";
import net from "node:net";
import type { Socket } from "bun";
import type { Spliced, SpliceRequest, Splicing } from "../../base/splicing.ts";
import { until, untilStill } from "../../base/testing/until.ts";
import { SPLICE_IDLE_PIPES_MAX, SPLICES_MAX } from "./orders.ts";
import { Splicer } from "./splicer.ts";
import { duplicate, pipe } from "./system-calls.ts";
import { SPLICE_PIPE_BYTES, SPLICE_SHORT_CHUNKS_MAX, Transfer } from "./transfer.ts";

const MIB = 1024 * 1024;
const splicer = new Splicer(new URL("./splice-thread.ts", import.meta.url));

/** The near end is a Bun socket that reads nothing; the far end belongs to the test. */
interface Connection extends Disposable {
  near: Socket<unknown>;
  fd: number;
  far: net.Socket;
  /** The data that the far end received. */
  got(): Buffer;
  isClosed(): boolean;
}

async function connect(): Promise<Connection> {
  const opened = Promise.withResolvers<Socket<unknown>>();
  const listener = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open: (socket) => {
        socket.pause();
        opened.resolve(socket);
      },
      data: () => undefined,
    },
  });
  const far = net.connect(listener.port, "127.0.0.1");
  const pieces: Buffer[] = [];
  let isClosed = false;
  far.on("data", (piece: Buffer) => pieces.push(piece));
  far.on("close", () => {
    isClosed = true;
  });
  far.on("error", () => undefined);
  const near = await opened.promise;
  listener.stop();
  return {
    near,
    fd: (near as unknown as { fd: number }).fd,
    far,
    got: () => Buffer.concat(pieces),
    isClosed: () => isClosed,
    [Symbol.dispose]() {
      far.destroy();
      near.terminate();
    },
  };
}

function begin(way: Omit<SpliceRequest, "cuts">, by = splicer): { splicing: Splicing; over: Promise<Spliced> } {
  const over = Promise.withResolvers<Spliced>();
  const splicing = by.begin({ ...way, cuts: "from" }, over.resolve);
  if (splicing === undefined) throw new Error("nothing was begun");
  return { splicing, over: over.promise };
}

function someBytes(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at + 4 <= length; at += 4) bytes.writeUInt32LE((at * 2_654_435_761) % 2 ** 32, at);
  return bytes;
}

const openFiles = () => readdirSync("/proc/self/fd").length;

/** It is there when something has been begun. */
async function untilThere(by: Splicer): Promise<void> {
  using from = await connect();
  using to = await connect();
  await until("the thread is there", () => {
    const way = { from: from.fd, to: to.fd, bytes: 1, cuts: "from" } as const;
    const splicing = by.begin(way, () => undefined);
    splicing?.cut();
    return splicing !== undefined;
  });
}

beforeAll(() => untilThere(splicer));
afterAll(() => splicer.close());

test("exactly the given number of bytes is moved in order, and later bytes stay", async () => {
  using from = await connect();
  using to = await connect();
  const sent = someBytes(5 * MIB);
  const { over } = begin({ from: from.fd, to: to.fd, bytes: sent.length });
  from.far.write(sent);
  from.far.write("behind");
  expect(await over).toEqual({ taken: sent.length, given: sent.length, isWhole: true, couldNot: false });
  await until("all has come", () => to.got().length >= sent.length);
  expect(to.got().equals(sent)).toBe(true);
  const rest = begin({ from: from.fd, to: to.fd, bytes: 6 });
  await rest.over;
  await until("more has come", () => to.got().length > sent.length);
  expect(to.got().toString("latin1", sent.length)).toBe("behind");
});

test("concurrent transfers are bounded, and each is complete", async () => {
  const before = openFiles();
  const pairs = await Promise.all(
    Array.from({ length: SPLICES_MAX }, async () => ({ from: await connect(), to: await connect() })),
  );
  const begun = pairs.map(({ from, to }) => begin({ from: from.fd, to: to.fd, bytes: MIB }));
  const [first] = pairs;
  const further = { from: first?.from.fd ?? -1, to: first?.to.fd ?? -1, bytes: 1, cuts: "from" } as const;
  expect(splicer.begin(further, () => undefined)).toBeUndefined();
  for (const [index, { from }] of pairs.entries()) from.far.write(Buffer.alloc(MIB, index));
  for (const { over } of begun) expect(await over).toMatchObject({ given: MIB });
  for (const [index, { to }] of pairs.entries()) {
    await until("all has come", () => to.got().length === MIB);
    expect(to.got().equals(Buffer.alloc(MIB, index))).toBe(true);
  }
  for (const { from, to } of pairs) for (const end of [from, to]) end[Symbol.dispose]();
  // A few pipes are kept.
  await until("all else is closed", () => openFiles() <= before + 2 * SPLICE_IDLE_PIPES_MAX);
});

test("a source that ends early is reported as incomplete", async () => {
  using from = await connect();
  using to = await connect();
  const { over } = begin({ from: from.fd, to: to.fd, bytes: MIB });
  from.far.end("short");
  expect(await over).toEqual({ taken: 5, given: 5, isWhole: false, couldNot: false });
});

test("a transfer to a closed target fails", async () => {
  using from = await connect();
  using to = await connect();
  const { over } = begin({ from: from.fd, to: to.fd, bytes: 64 * MIB });
  to.far.resetAndDestroy();
  from.far.write(someBytes(4 * MIB));
  const { given } = await over;
  expect(given).toBeLessThan(64 * MIB);
});

test("a slow reader blocks the source and gets everything later", async () => {
  using from = await connect();
  using to = await connect();
  to.far.pause();
  const sent = someBytes(48 * MIB);
  const { over } = begin({ from: from.fd, to: to.fd, bytes: sent.length });
  let written = 0;
  const pour = () => {
    while (written < sent.length) {
      const piece = sent.subarray(written, written + MIB);
      written += piece.length;
      if (!from.far.write(piece)) return void from.far.once("drain", pour);
    }
  };
  pour();
  expect(await untilStill(() => written)).toBeLessThan(sent.length - SPLICE_PIPE_BYTES);
  to.far.resume();
  expect(await over).toMatchObject({ given: sent.length });
  await until("all has come", () => to.got().length === sent.length);
  expect(to.got().equals(sent)).toBe(true);
});

test("a stopped transfer ends and leaves both connections open", async () => {
  using from = await connect();
  using to = await connect();
  const { splicing, over } = begin({ from: from.fd, to: to.fd, bytes: MIB });
  from.far.write("begun");
  await until("it has begun", () => to.got().length === 5);
  splicing.stop();
  splicing.stop();
  expect(await over).toEqual({ taken: 5, given: 5, isWhole: false, couldNot: false });
  to.near.write(" and more");
  await until("more has come", () => to.got().toString() === "begun and more");
  expect(from.isClosed()).toBe(false);
  // After the end, the splicer must not touch these descriptor numbers: other files may have them.
  splicing.cut();
  expect(from.isClosed()).toBe(false);
});

test("a cut transfer resets its connection, even if others hold descriptors of it", async () => {
  using from = await connect();
  using to = await connect();
  const { splicing, over } = begin({ from: from.fd, to: to.fd, bytes: MIB });
  from.far.write("begun");
  await until("it has begun", () => to.got().length === 5);
  splicing.cut();
  expect(await over).toMatchObject({ given: 5 });
  await until("it is closed", from.isClosed);
  expect(to.isClosed()).toBe(false);
});

test("a descriptor closed by its owner stays open until the transfer ends", async () => {
  using from = await connect();
  using to = await connect();
  const sent = someBytes(3 * MIB);
  const { over } = begin({ from: from.fd, to: to.fd, bytes: sent.length });
  from.near.terminate();
  from.far.write(sent);
  expect(await over).toMatchObject({ given: sent.length });
});

test("bytes left of a reset connection are not moved: its owner reads them", async () => {
  using from = await connect();
  using to = await connect();
  const [own, ends] = [duplicate(from.fd), pipe(SPLICE_PIPE_BYTES)];
  const transfer = new Transfer({ number: 1, from: own, to: to.fd, bytes: MIB, inChunks: false }, ends);
  from.far.write("before");
  await until("it has come", () => {
    transfer.isReadable = true;
    transfer.turn();
    return transfer.taken > 0;
  });
  expect(transfer).toMatchObject({ taken: 6, inPipe: 0, error: 0 });
  // At once, before its owner has a turn.
  from.far.write("behind");
  from.far.resetAndDestroy();
  transfer.isReadable = true;
  transfer.turn();
  expect(transfer.isOver).toBe(true);
  expect(transfer.taken - transfer.inPipe).toBe(6);
  await until("the rest has come", () => to.got().length > 0);
  expect(to.got().toString()).toBe("before");
  for (const fd of [own, ...ends]) closeSync(fd);
});

describe("in chunks", () => {
  const chunk = (length: number) => Buffer.concat([Buffer.from(`\r\n${length.toString(16)}\r\n`), someBytes(length)]);
  const rest = someBytes(100_000);

  test.each([
    ["the last one", "\r\n0\r\n\r\n"],
    ["one with an extension", "\r\n4000;a=b\r\n"],
    ["no chunk", "nonsense, and more of it"],
    ["many short ones", Buffer.concat(Array(2 * SPLICE_SHORT_CHUNKS_MAX).fill(chunk(1))).toString("latin1")],
  ])("following chunks are moved unchanged, up to %s", async (_, behind) => {
    using from = await connect();
    using to = await connect();
    const sent = Buffer.concat([rest, chunk(300_000), chunk(3 * MIB), chunk(1), chunk(40_000)]);
    const { over } = begin({ from: from.fd, to: to.fd, bytes: rest.length, inChunks: true });
    // In all parts that the lines can come in.
    for (let at = 0; at < sent.length; at += 99_999) from.far.write(sent.subarray(at, at + 99_999));
    from.far.write(Buffer.from(behind, "latin1"));
    const { taken, given, isWhole } = await over;
    expect([given, isWhole]).toEqual([taken, true]);
    await until("all has come", () => to.got().length >= given);
    const whole = Buffer.concat([sent, Buffer.from(behind, "latin1")]);
    expect(to.got().equals(whole.subarray(0, given))).toBe(true);
    expect(given).toBeGreaterThanOrEqual(sent.length);
    expect(given).toBeLessThan(whole.length);
  });

  test("a silent source is given back after a chunk, and later bytes stay", async () => {
    using from = await connect();
    using to = await connect();
    const { over } = begin({ from: from.fd, to: to.fd, bytes: rest.length, inChunks: true });
    from.far.write(rest);
    expect(await over).toEqual({ taken: rest.length, given: rest.length, isWhole: true, couldNot: false });
    from.far.write(chunk(100_000));
    const next = begin({ from: from.fd, to: to.fd, bytes: 9, inChunks: false });
    await next.over;
    await until("the lines have come", () => to.got().length === rest.length + 9);
    expect(to.got().toString("latin1", rest.length)).toBe("\r\n186a0\r\n");
  });

  test("a source that ends between chunks is whole, within a chunk it is not", async () => {
    for (const missing of [0, 1]) {
      using from = await connect();
      using to = await connect();
      const { over } = begin({ from: from.fd, to: to.fd, bytes: rest.length, inChunks: true });
      const sent = Buffer.concat([rest, chunk(50_000)]);
      from.far.end(sent.subarray(0, sent.length - missing));
      expect(await over).toMatchObject({ given: sent.length - missing, isWhole: missing === 0 });
    }
  });
});

test("a descriptor that cannot be spliced is reported and left unchanged", async () => {
  using to = await connect();
  const folder = openSync("/", "r");
  const { over } = begin({ from: folder, to: to.fd, bytes: MIB });
  expect(await over).toEqual({ taken: 0, given: 0, isWhole: false, couldNot: true });
  closeSync(folder);
});
