/** Output of a process, byte by byte, to one listener and to several: in both encodings, from a real daemon. */
import { describe, expect, test } from "bun:test";
import { ENCODINGS, speaking } from "../testing/encodings.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { nextPid, ProcessCalls, shell } from "../testing/process-calls.ts";
import type { StreamedEvent } from "../testing/running-guest.ts";

const GROWTH_MAX_KIB = 64 * 1024;
const guest = await guestOfFile();

const bytesOf = ({ json }: StreamedEvent) => Buffer.from(json.event?.data?.stdout ?? "", "base64");

/** All of stdout. For a while it may be slow. */
async function collect(events: AsyncIterable<StreamedEvent>, slowMs = 0): Promise<{ bytes: number; digest: string }> {
  const hash = new Bun.CryptoHasher("sha256");
  let bytes = 0;
  const slowUntil = performance.now() + slowMs;
  for await (const event of events) {
    const chunk = bytesOf(event);
    hash.update(chunk);
    bytes += chunk.length;
    if (performance.now() < slowUntil) await Bun.sleep(20);
  }
  return { bytes, digest: hash.digest("hex") };
}

describe.each(ENCODINGS)("in %s,", (encoding) => {
  test("every byte value arrives unchanged", async () => {
    const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const octal = [...all].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
    const received: Buffer[] = [];
    const script = `printf '${octal}'`;
    for await (const event of speaking(guest, encoding).stream("process.Process/Start", shell(script))) {
      received.push(bytesOf(event));
    }
    expect(Buffer.concat(received)).toEqual(all);
  });

  // Guards against decoding each chunk as text.
  test("a character written in two halves arrives in two halves", async () => {
    const processes = new ProcessCalls(speaking(guest, encoding));
    const script = "printf '\\342\\202'; read -r _; printf '\\254'";
    const { pid, rest } = await processes.start(shell(script));
    const first = (await rest.next()).value;
    expect(first && bytesOf(first)).toEqual(Buffer.from([0xe2, 0x82]));
    await processes.input(pid, "\n");
    const second = (await rest.next()).value;
    expect(second && bytesOf(second)).toEqual(Buffer.from([0xac]));
    await rest.return(undefined);
  });
});

// Guards against a subscription with an unbounded buffer (memory), and one that drops data when full (bytes).
test("a flood reaches three listeners completely, also a slow one, in bounded memory", async () => {
  const processes = new ProcessCalls(guest);
  const bytes = 100_000_000;
  // The daemon's code and heap have then grown as far as output makes them grow; the rest would be a buffer.
  await collect((await processes.start(shell(`seq 1 99999999 | head -c ${bytes / 4}`))).rest);
  await Bun.write(`/proc/${guest.pid}/clear_refs`, "5");
  const before = await guest.memoryKib();
  const script = `read -r _; seq 1 99999999 | head -c ${bytes} | tee ${guest.folder}/flood`;
  const { pid, rest } = await processes.start(shell(script));
  const [other, slow] = [processes.connect({ pid }), processes.connect({ pid })];
  await Promise.all([nextPid(other), nextPid(slow)]);
  await processes.input(pid, "\n");
  const received = await Promise.all([collect(rest), collect(other), collect(slow, 2_000)]);
  const written = new Bun.CryptoHasher("sha256").update(await Bun.file(`${guest.folder}/flood`).bytes()).digest("hex");
  const all = { bytes, digest: written };
  expect(received).toEqual([all, all, all]);
  expect((await guest.memoryKib()).peak - before.now).toBeLessThan(GROWTH_MAX_KIB);
});
