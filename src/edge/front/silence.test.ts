/** Streams may be silent for longer than the server's idle timeout, on either side, and before the first byte. */
import { expect, test } from "bun:test";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { hostOf, RawService } from "../testing/edge-under-test.ts";
import { serve } from "../testing/service.ts";

/** Longer than the default idle limit of Bun's server, ten seconds, which Bun checks every four. */
const SILENCE_MS = 14_500;
const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";

const edge = edgeOfFile();

// Guards against the time limits of Bun's servers: that of a silent request, and that of each request of the inner
// server.
test("a late response, a pausing response and a pausing upload arrive complete", async () => {
  await using thinking = await RawService.start(async (socket) => {
    await Bun.sleep(SILENCE_MS);
    socket.end(`${HEAD}late`);
  });
  await using pausing = await RawService.start(async (socket) => {
    socket.write(`${HEAD}first `);
    await Bun.sleep(SILENCE_MS);
    socket.end("second");
  });
  await using service = serve(async (request) => new Response(`${(await request.bytes()).length} bytes`));
  const upload = edge.raw(
    `POST / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nContent-Length: 10\r\n\r\nfirst`,
    (text) => text.endsWith("bytes"),
    { afterMs: SILENCE_MS, text: "last5" },
  );
  edge.management = async () => {
    await Bun.sleep(SILENCE_MS);
    return new Response("decided");
  };
  const answers = await Promise.all([
    fetch(edge.url, { method: "DELETE" }).then((response) => response.text()),
    edge.fetch(thinking.port, "/").then((response) => response.text()),
    edge.fetch(pausing.port, "/").then((response) => response.text()),
    upload,
  ]);
  expect(answers).toEqual(["decided", "late", "first second", expect.stringMatching(/10 bytes$/)]);
});
