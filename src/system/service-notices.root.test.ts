/** A socket receives what systemd would. Python makes it, because Bun has no datagram sockets with a path. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { jsonLog } from "../base/log.ts";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { ServiceNotices } from "./service-notices.ts";

const folder = folderOfFile("notices");
const RECEIVE = `
import socket, sys
here = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
here.bind(sys.argv[1].replace("@", "\\0", 1))
print("listening", flush=True)
while True:
    message = here.recv(4096).decode()
    print(message.replace("\\n", " "), flush=True)
    if message.startswith("STOPPING"): break
`;
const none = jsonLog(() => undefined);

test.each([join(folder, "notify"), `@sandlot-notices-${process.pid}`])(
  "the service manager at %s hears of readiness, life and stop",
  async (socket) => {
    await using manager = Bun.spawn(["python3", "-c", RECEIVE, socket], { stdout: "pipe", env: process.env });
    const received = lines(manager.stdout);
    expect((await received.next()).value).toBe("listening");
    const notices = new ServiceNotices(
      { NOTIFY_SOCKET: socket, WATCHDOG_USEC: "30000", WATCHDOG_PID: String(process.pid) },
      none,
    );
    notices.ready("serving");
    expect((await received.next()).value).toBe("READY=1 STATUS=serving");
    expect((await received.next()).value).toBe("WATCHDOG=1");
    notices.stopping();
    let last = "";
    for await (const line of received) last = line;
    expect(last).toBe("STOPPING=1");
  },
);

test("a process without a service manager sends nothing", () => {
  const written: string[] = [];
  const notices = new ServiceNotices(
    {},
    jsonLog((line) => written.push(line)),
  );
  notices.ready("serving");
  notices.stopping();
  expect(written).toEqual([]);
});

test("a failed notice is logged and ends nothing", () => {
  const written: string[] = [];
  const notices = new ServiceNotices(
    { NOTIFY_SOCKET: join(folder, "nothing") },
    jsonLog((line) => written.push(line)),
  );
  notices.ready("serving");
  expect(written.join()).toContain("ENOENT");
});

async function* lines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of stream) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    yield* parts;
  }
}
