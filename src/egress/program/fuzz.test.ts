/** Fuzzes replies of a SOCKS server, which a tenant chooses. */
import { expect } from "bun:test";
import { fuzzBytes } from "../../base/testing/fuzz.ts";
import type { Peer } from "./peer.ts";
import { connectThroughProxy } from "./socks.ts";

/** The other end of a connection that gives these pieces, whenever it is wanted, and then ends. */
function peerOf(pieces: readonly Buffer[]) {
  const waiting = [...pieces];
  const reported: { kept: Buffer; sent: number } = { kept: Buffer.alloc(0), sent: 0 };
  let isPaused = true;
  const peer = {
    events: { data: (_: Buffer) => undefined, end: () => undefined, room: () => undefined },
    write: (bytes: Buffer) => {
      reported.sent += bytes.length;
    },
    pause: () => {
      isPaused = true;
    },
    resume: () => {
      isPaused = false;
      queueMicrotask(() => {
        while (!isPaused && waiting.length > 0) peer.events.data(waiting.shift() ?? Buffer.alloc(0));
        if (!isPaused) peer.events.end();
      });
    },
    putBack: (bytes: Buffer) => {
      reported.kept = bytes;
    },
  };
  return { peer: peer as unknown as Peer, reported, rest: () => Buffer.concat([reported.kept, ...waiting]) };
}

const proxy = { host: "proxy.test", port: 1080, credentials: { username: "user", password: "password" } };
const granted = [5, 0, 0, 1, 1, 2, 3, 4, 0, 80];

fuzzBytes("a proxy's verdict is the same for every split of its replies, and no later byte is lost", {
  seeds: [
    [5, 0, ...granted, ...Buffer.from("hello")],
    [5, 2, 1, 0, ...granted],
    [5, 0, 5, 0, 0, 3, 4, 97, 98, 99, 100, 0, 80, 1],
    [5, 0, 5, 0, 0, 4, ...Buffer.alloc(18)],
    [5, 255],
    [5, 0, 5, 0, 0, 3, 255],
  ].map((bytes) => Buffer.from(bytes)),
  async check(bytes, random) {
    const ask = async (pieces: readonly Buffer[]) => {
      const { peer, reported, rest } = peerOf(pieces);
      const isGranted = await connectThroughProxy(peer, proxy, "1.2.3.4", 80);
      expect(reported.sent).toBeLessThan(600);
      return { isGranted, rest: isGranted ? rest().toString("latin1") : "" };
    };
    expect(await ask(random.split(bytes))).toEqual(await ask([bytes]));
  },
});
