import { expect, test } from "bun:test";
import { join } from "node:path";
import { boundedLines } from "../../base/bounded-lines.ts";
import type { RelayRequest, RelayStart } from "../relay-messages.ts";

const LINE_MAX_BYTES = 64 * 1024;
/** Throws where no caller can catch it, as a listener does. */
const THROWING = `
process.on("SIGUSR2", () => {
  setImmediate(() => { throw new Error("thrown in a listener"); });
  void Promise.reject(new Error("rejected"));
});
await import(${JSON.stringify(join(import.meta.dir, "main.ts"))});
`;

test("an exception in a listener does not end the relay, and an invalid message of the server does", async () => {
  await using relay = Bun.spawn([process.execPath, "-e", THROWING], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
    timeout: 20_000,
    killSignal: "SIGKILL",
  });
  const [replies, errors] = [boundedLines(relay.stdout, LINE_MAX_BYTES), boundedLines(relay.stderr, LINE_MAX_BYTES)];
  const send = async (message: RelayStart | RelayRequest | "invalid") => {
    relay.stdin.write(`${message === "invalid" ? message : JSON.stringify(message)}\n`);
    await relay.stdin.flush();
  };
  await send({ address: "127.0.0.1", ports: { http: 0, tls: 0, proxied: 0 }, connectionsMax: 10, rules: null });
  expect(JSON.parse((await replies.next()).value ?? "")).toMatchObject({ ready: expect.anything() });
  relay.kill("SIGUSR2");
  expect((await errors.next()).value).toMatch(/thrown in a listener|rejected/);
  await send({ id: 7, do: "close-ranges", ranges: [] });
  expect(JSON.parse((await replies.next()).value ?? "")).toEqual({ done: 7 });
  await send("invalid");
  expect(await relay.exited).toBe(1);
});
