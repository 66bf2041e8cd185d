/** How many bodies of a sandbox are handed to who moves them; what becomes of them there is tested with that. */
import { afterAll, expect, test } from "bun:test";
import type { Splice, Spliced } from "../work/splicing.ts";
import { EDGE_SPLICED_AT_ONCE_MAX } from "./limits.ts";
import { SandboxSocket } from "./sandbox-socket.ts";
import { SELF_SIGNED } from "./testing/self-signed.ts";

const service = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
afterAll(() => service.stop(true));

/** Moves nothing, until it is told that all is over. */
class Stalled implements Splice {
  readonly #begun: ((spliced: Spliced) => void)[] = [];
  readonly done: string[] = [];

  begin: Splice["begin"] = (_way, over) => {
    this.#begun.push(over);
    return { stop: () => this.done.push("stop"), cut: () => this.done.push("cut") };
  };

  endAll(): void {
    for (const over of this.#begun.splice(0)) over({ taken: 0, given: 0, couldNot: false });
  }
}

async function dial(splice: Splice, ended: AbortSignal): Promise<SandboxSocket> {
  const to = { host: "127.0.0.1", port: service.port };
  return await SandboxSocket.dial({ to, tlsName: undefined, until: [ended], splice });
}

const handOver = (socket: SandboxSocket) => socket.spliceTo(1, 1, () => undefined);

test("one sandbox has so many moved at once, another one its own, and there is room again when they are over", async () => {
  const splice = new Stalled();
  const [one, other] = [new AbortController(), new AbortController()];
  const sockets = await Promise.all(
    Array.from({ length: EDGE_SPLICED_AT_ONCE_MAX + 1 }, () => dial(splice, one.signal)),
  );
  expect(sockets.map(handOver)).toEqual([...Array(EDGE_SPLICED_AT_ONCE_MAX).fill(true), false]);
  const elsewhere = await dial(splice, other.signal);
  expect(handOver(elsewhere)).toBe(true);
  splice.endAll();
  expect(sockets.map(handOver)).toEqual([...Array(EDGE_SPLICED_AT_ONCE_MAX).fill(true), false]);
  one.abort();
  expect(splice.done).toEqual(Array(EDGE_SPLICED_AT_ONCE_MAX).fill("cut"));
  other.abort();
});

test("with TLS nothing is handed over, for there is more to do than to move it", async () => {
  const secure = Bun.listen({ hostname: "127.0.0.1", port: 0, tls: SELF_SIGNED, socket: { data: () => undefined } });
  const to = { host: "127.0.0.1", port: secure.port };
  const socket = await SandboxSocket.dial({ to, tlsName: "localhost", until: [], splice: new Stalled() });
  expect(handOver(socket)).toBe(false);
  socket.cut();
  secure.stop(true);
});
