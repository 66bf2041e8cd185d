/** Streams from a guest that root in a sandbox has replaced. */
import { expect, test } from "bun:test";
import { envelope, messagesOf } from "./connect-stream.ts";

const READ_FOR_MS = 500;
const AT_ONCE = 8_192;

test("empty messages are read at a bounded rate", async () => {
  const nothings = Buffer.concat(Array.from({ length: AT_ONCE }, () => envelope({})));
  async function* withoutEnd() {
    for (;;) yield nothings;
  }
  const until = performance.now() + READ_FOR_MS;
  let messages = 0;
  for await (const _ of messagesOf(withoutEnd())) {
    messages++;
    if (performance.now() > until) break;
  }
  expect(messages).toBeLessThanOrEqual(AT_ONCE * 4);
});
