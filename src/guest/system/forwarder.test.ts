/** Forwarders carry bytes from outside to services that listen on a loopback address only. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "../../base/testing/free-port.ts";
import { timed } from "../../base/testing/timed.ts";
import { until, untilStill } from "../../base/testing/until.ts";
import { FORWARD_CONNECTIONS_MAX, FORWARDERS_MAX, Forwarders } from "./forwarder.ts";

let service: Server;
let onConnection: (socket: Socket) => void;
const port = () => (service.address() as { port: number }).port;

async function listenOn(host: string, number = 0): Promise<void> {
  service = createServer({ allowHalfOpen: true }, (socket) => {
    // The guest checks for a listener by connecting and disconnecting at once.
    socket.on("error", () => socket.destroy());
    onConnection(socket);
  });
  await new Promise<void>((ready) => service.listen(number, host, ready));
}

/** A service that says nothing and leaves when its client does. */
const silent = (socket: Socket) => {
  socket.resume().on("end", () => socket.end());
};

beforeEach(async () => {
  onConnection = silent;
  await listenOn("127.0.0.1");
});
afterEach(() => {
  service.close();
});

const opened = async (forwarders = new Forwarders()) => (await forwarders.open(port())) ?? Number.NaN;
const reach = (outside: number) => connect({ host: "127.0.0.1", port: outside, allowHalfOpen: true });
const ended = (socket: Socket) => new Promise<void>((done) => socket.once("end", done));

describe("a forwarder", () => {
  test("is not opened for a port where nothing listens", async () => {
    const closed = port();
    await new Promise((done) => service.close(done));
    expect(await new Forwarders().open(closed)).toBeUndefined();
  });

  test("is reused for the same port", async () => {
    const forwarders = new Forwarders();
    expect(await opened(forwarders)).toBe(await opened(forwarders));
  });

  test("reaches a service on ::1", async () => {
    service.close();
    // Forwarders prefer 127.0.0.1, where another process may have a port that is free on ::1.
    await listenOn("::1", freePort());
    onConnection = (socket) => socket.end("six");
    const client = reach(await opened());
    let received = "";
    client.on("data", (chunk) => {
      received += chunk;
    });
    await ended(client);
    expect(received).toBe("six");
    client.destroy();
  });

  // Guards against ending the whole connection at the first end.
  test("passes on a half-close and keeps the other direction open", async () => {
    onConnection = (socket) => {
      const chunks: Buffer[] = [];
      socket.on("data", (chunk) => chunks.push(Buffer.from(chunk)));
      socket.on("end", () => socket.end(`heard ${Buffer.concat(chunks)}`));
    };
    const client = reach(await opened());
    let received = "";
    client.on("data", (chunk) => {
      received += chunk;
    });
    client.end("everything");
    await ended(client);
    expect(received).toBe("heard everything");
  });

  // Guards against a sender that is never paused, and bytes that a socket did not accept and that are thrown away.
  test("throttles a fast sender and loses nothing", async () => {
    const total = 64 * 1024 * 1024;
    let sent = 0;
    const outside = await opened();
    onConnection = (socket) => {
      const block = Buffer.alloc(1024 * 1024);
      const pour = () => {
        while (sent < total) {
          sent += block.length;
          if (!socket.write(block)) {
            socket.once("drain", pour);
            return;
          }
        }
        socket.end();
      };
      pour();
    };
    const client = reach(outside);
    client.pause();
    expect(await untilStill(() => sent)).toBeLessThan(total / 2);
    let received = 0;
    client.on("data", (chunk) => {
      received += chunk.length;
    });
    client.resume();
    await ended(client);
    expect(received).toBe(total);
    client.destroy();
  });

  // Guards against a forwarder that never closes.
  test("is rejected above the limit", async () => {
    const forwarders = new Forwarders(600_000);
    const services = await Promise.all(
      Array.from({ length: FORWARDERS_MAX + 1 }, async () => {
        const another = createServer(silent);
        await new Promise<void>((ready) => another.listen(0, "127.0.0.1", ready));
        return another;
      }),
    );
    const [last, ...first] = services.map((each) => (each.address() as { port: number }).port);
    for (const each of first) await forwarders.open(each);
    await expect(forwarders.open(last ?? 0)).rejects.toThrow(`all ${FORWARDERS_MAX} forwarders are in use`);
    for (const each of services) each.close();
  });

  test("carries a bounded number of connections", async () => {
    const outside = await opened();
    const opens = Array.from({ length: FORWARD_CONNECTIONS_MAX }, async () => {
      const client = reach(outside);
      await new Promise((done) => client.once("connect", done));
      return client;
    });
    const clients = await Promise.all(opens);
    // Whether all were taken in is not to be seen from here: the one too many may have to knock twice.
    for (let isRefused = false; !isRefused; ) {
      const late = reach(outside);
      clients.push(late);
      late.on("error", () => undefined);
      const refused = new Promise<boolean>((done) => late.once("close", () => done(true)));
      isRefused = await Promise.race([refused, Bun.sleep(500).then(() => false)]);
    }
    for (const client of clients) client.destroy();
  });

  timed("closes when idle, and not while in use", async () => {
    const outside = await opened(new Forwarders(100));
    const client = reach(outside);
    await new Promise<void>((ready) => client.once("connect", ready));
    await Bun.sleep(250);
    expect(await reachable(outside)).toBe(true);
    client.destroy();
    // Each successful try is itself a use, so the tries leave it time to be idle.
    const isClosed = async () => {
      await Bun.sleep(300);
      return !(await reachable(outside));
    };
    await until("the forwarder closes", isClosed, 5_000);
  });
});

function reachable(outside: number): Promise<boolean> {
  return new Promise((answer) => {
    const socket = reach(outside);
    socket.once("connect", () => {
      socket.destroy();
      answer(true);
    });
    socket.once("error", () => answer(false));
  });
}
