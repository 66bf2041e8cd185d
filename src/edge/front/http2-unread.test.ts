/** An HTTP/2 client that keeps sending requests and reads no responses. It writes raw frames: libraries do read. */
import { expect, test } from "bun:test";
import { untilStill, untilTrue } from "../../base/testing/until.ts";
import { HeaderLines } from "../../http1/header-lines.ts";
import { FrameClient, frame, HEADERS } from "../testing/http2-frames.ts";
import { SELF_SIGNED } from "../testing/self-signed.ts";
import { EdgeListener } from "./edge-listener.ts";

const END_OF_STREAM_AND_HEADERS = 5;
const HOST = "a.test";
/** HEAD of / by https, from the table of HPACK where it has them. */
const ASKED = Buffer.from(`\x02\x04HEAD\x87\x84\x01${String.fromCharCode(HOST.length)}${HOST}`, "latin1");

// Response heads wait for no window. Guards against a connection that is read however much waits to be sent.
test("a client that reads no responses is not served further requests", async () => {
  const headers = new HeaderLines();
  headers.append("x-long", "~".repeat(30_000));
  let answered = 0;
  const front = new EdgeListener({
    hostname: "127.0.0.1",
    port: 0,
    tls: SELF_SIGNED,
    handle(request) {
      answered += 1;
      request.respond({ status: 200, statusText: "OK", headers }, "none");
    },
  });
  using client = await FrameClient.connect(front.port);
  try {
    client.socket.pause();
    const request = 2_000;
    for (let nth = 0; nth < request; nth++) {
      client.send(frame(HEADERS, END_OF_STREAM_AND_HEADERS, 2 * nth + 1, ASKED));
      if (nth % 20 === 0) await Bun.sleep(1);
    }
    await untilStill(() => answered);
    expect(answered).toBeLessThan(request / 2);
    client.socket.resume();
    await untilTrue(() => answered >= request);
  } finally {
    client.socket.destroy();
    await front.stop(true);
  }
});
