/**
 * A server that limits what each sandbox may send, receive, read and write per second. The tests only check upper
 * bounds, because a busy machine may be slower.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { RUNTIME_NAMES, type RuntimeName } from "../../src/contract/runtime-name.ts";
import { serverOfFile } from "../support/server-of-file.ts";

const MIB = 1024 * 1024;
const BANDWIDTH_MBIT = 40;
const DISK_MB = 8;
/** More than passes at once, and enough to detect a missing limit. */
const SENT_MB = 4;
const SENT_MIN_MS = 500;
const STORED_MB = 12;
const STORED_MIN_MS = 1_000;
/** runsc takes no notice of O_DIRECT. */
const TO_THE_DISK: Readonly<Record<RuntimeName, string>> = { crun: "oflag=direct", runsc: "conv=fsync" };

// With runsc only in the long lane.
describe.each(LONG ? RUNTIME_NAMES : (["crun"] as const))("with %s", (runtime) => {
  const server = serverOfFile(`throttled-${runtime}`, {
    SANDLOT_READY: "0",
    SANDLOT_WALL: runtime,
    SANDLOT_BANDWIDTH_MBIT: String(BANDWIDTH_MBIT),
    SANDLOT_DISK_MB_PER_SECOND: String(DISK_MB),
  });
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  });

  async function msOf(work: () => Promise<unknown>): Promise<number> {
    const begun = performance.now();
    await work();
    return performance.now() - begun;
  }

  /** Random data, which gzip cannot shorten. */
  const content = new Uint8Array(randomBytes(SENT_MB * MIB)).buffer;
  const send = () => sandbox.files.write("/dev/shm/sent", content);
  const receive = () => sandbox.files.read("/dev/shm/sent", { format: "bytes" });
  const store = () =>
    sandbox.commands.run(`dd if=/dev/zero of=stored bs=1M count=${STORED_MB} ${TO_THE_DISK[runtime]}`);
  const readBack = () => sandbox.commands.run("dd if=stored of=/dev/null bs=1M iflag=direct");

  test("traffic to and from a sandbox and its disk throughput are limited", async () => {
    expect(await msOf(send)).toBeGreaterThan(SENT_MIN_MS);
    expect(await msOf(receive)).toBeGreaterThan(SENT_MIN_MS);
    expect(await msOf(store)).toBeGreaterThan(STORED_MIN_MS);
    // With runsc the data is still in the machine's memory, and the disk is not read.
    if (runtime === "crun") expect(await msOf(readBack)).toBeGreaterThan(STORED_MIN_MS);
  });

  test("the limits hold after a pause", async () => {
    await sandbox.pause();
    await sandbox.connect();
    expect(await msOf(send)).toBeGreaterThan(SENT_MIN_MS);
    expect(await msOf(receive)).toBeGreaterThan(SENT_MIN_MS);
    expect(await msOf(readBack)).toBeGreaterThan(STORED_MIN_MS);
  });
});
