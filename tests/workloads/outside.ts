/** Workloads: connections out of the sandbox, whose other end a pause cannot keep. */
import { expect } from "bun:test";
import { OUTSIDE } from "../../src/host/testing/outer-network.ts";
import { until } from "../support/until.ts";
import type { Workload } from "./workload.ts";

/** Connects, then reports the result of each command line. */
const CLIENT = `
import socket, sys
connection = socket.create_connection(("${OUTSIDE}", 80))
print("<connected>")
for line in sys.stdin:
    try:
        if line.strip() == "again": connection = socket.create_connection(("${OUTSIDE}", 80))
        connection.sendall(b"GET / HTTP/1.1\\r\\nHost: outside\\r\\n\\r\\n")
        print("<%s>" % connection.recv(65536).decode().split("\\r\\n")[0])
    except OSError as error:
        print("<%s>" % type(error).__name__)
`;

/** Waits for something to read and records it in a file, because no client listens at that moment. */
const WAITING_CLIENT = `
import os, socket
connection = socket.create_connection(("${OUTSIDE}", 80))
print("<waiting>")
try: came = "%r" % connection.recv(1)
except OSError as error: came = type(error).__name__
open("/tmp/came.new", "w").write(came); os.rename("/tmp/came.new", "/tmp/came")
`;

/** Has each line echoed to it over one UDP socket, which can be connected again. */
const UDP_CLIENT = `
import socket, sys
echo = ("${OUTSIDE}", 7000)
connected = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); connected.connect(echo)
for line in sys.stdin:
    try:
        if line.strip() == "again": connected.connect(echo)
        connected.send(line.strip().encode())
        print("<%s>" % connected.recv(99).decode())
    except OSError:
        print("<an error>")
`;

export const outside: Workload[] = [
  {
    what: "an outside connection: ECONNABORTED (Python's ConnectionAbortedError); programs can reconnect",
    fate: "closed",
    async play(stage) {
      const client = await stage.python(CLIENT);
      await client.hear(/<connected>/);
      expect(await client.ask("", /<(.*)>/)).toBe("HTTP/1.1 200 OK");
      const waiting = await stage.python(WAITING_CLIENT);
      await waiting.hear(/<waiting>/);
      const udpClient = await stage.python(UDP_CLIENT);
      expect(await udpClient.ask("one", /<(.*)>/)).toBe("one");
      await stage.pauseAndResume();
      expect(await client.ask("", /<(.*)>/)).toBe("ConnectionAbortedError");
      expect(await stage.run("until test -e /tmp/came; do sleep 0.02; done; cat /tmp/came")).toBe(
        "ConnectionAbortedError",
      );
      expect(await client.ask("again", /<(.*)>/)).toBe("HTTP/1.1 200 OK");
      expect(await udpClient.ask("two", /<(.*)>/)).toBe("an error");
      // Its first receive may report the end of the earlier flow as well.
      await until("it is echoed again", async () => (await udpClient.ask("again", /<(.*)>/)) === "again");
    },
  },
];
