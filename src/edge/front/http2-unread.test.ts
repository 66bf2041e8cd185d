/** A client of HTTP/2 that asks again and again and takes no answers. The frames are its own: clients take answers. */
import { expect, test } from "bun:test";
import { once } from "node:events";
import tls from "node:tls";
import { SELF_SIGNED } from "../testing/self-signed.ts";
import { untilStill } from "../testing/until-still.ts";
import { Front } from "./front.ts";
import { HeaderLines } from "./header-lines.ts";

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const [HEADERS, SETTINGS] = [1, 4];
const END_OF_STREAM_AND_HEADERS = 5;
const HOST = "a.test";
/** HEAD of / by https, from the table of HPACK where it has them. */
const ASKED = Buffer.from(`\x02\x04HEAD\x87\x84\x01${String.fromCharCode(HOST.length)}${HOST}`, "latin1");

function frame(kind: number, flags: number, stream: number, content = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(content.length, 0, 3);
  head[3] = kind;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, content]);
}

// Heads of answers wait for no window. Seen to fail with a connection that is read however much waits to be sent.
test("who takes no answers is asked for no more, and for the rest when it takes them", async () => {
  const headers = new HeaderLines();
  headers.append("x-long", "~".repeat(30_000));
  let answered = 0;
  const front = new Front({
    hostname: "127.0.0.1",
    port: 0,
    tls: SELF_SIGNED,
    handle(request) {
      answered += 1;
      request.answer({ status: 200, statusText: "OK", headers }, "none");
    },
  });
  const options = { port: front.port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"] };
  const client = tls.connect(options).on("error", () => undefined);
  try {
    await once(client, "secureConnect");
    client.pause();
    client.write(Buffer.concat([Buffer.from(PREFACE), frame(SETTINGS, 0, 0)]));
    const asked = 2_000;
    for (let nth = 0; nth < asked; nth++) {
      client.write(frame(HEADERS, END_OF_STREAM_AND_HEADERS, 2 * nth + 1, ASKED));
      if (nth % 20 === 0) await Bun.sleep(1);
    }
    await untilStill(() => answered);
    expect(answered).toBeLessThan(asked / 2);
    client.resume();
    while (answered < asked) await Bun.sleep(10);
  } finally {
    client.destroy();
    await front.stop(true);
  }
});
