/** One socket of a kernel, connected until it or the kernel ends. */
import { createConnection, type Socket } from "node:net";
import { logFailure } from "../log.ts";
import { greeting, type Message, message, ready, type SocketType, ZmtpReader } from "./zmtp.ts";

const KERNEL_CONNECT_AGAIN_MS = 10;
const SUBSCRIBE_TO_ALL = Buffer.from([1]);

export class KernelSocket {
  /** Settles when either side has closed the socket and `onMessage` has received everything. */
  readonly closed: Promise<void>;

  private constructor(private readonly socket: Socket) {
    this.closed = socket.destroyed
      ? Promise.resolve()
      : new Promise((resolve) => socket.once("close", () => resolve()));
  }

  /** Retries until the kernel listens or `signal` aborts. An exception in `onMessage` closes the connection. */
  static async connect(
    path: string,
    type: SocketType,
    { signal, onMessage, onLost }: { signal: AbortSignal; onMessage(message: Message): void; onLost(): void },
  ): Promise<KernelSocket> {
    for (;;) {
      signal.throwIfAborted();
      const opened = await open(path);
      if (opened === undefined) {
        await Bun.sleep(KERNEL_CONNECT_AGAIN_MS);
        continue;
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const reader = new ZmtpReader(resolve, onMessage);
      opened.on("data", (piece: Buffer) => {
        try {
          reader.take(piece);
        } catch (error) {
          logFailure("kernel", error);
          opened.destroy();
        }
      });
      opened.on("close", () => {
        reject(new Error(`the kernel closed ${path}`));
        onLost();
      });
      opened.on("error", () => opened.destroy());
      const giveUp = () => opened.destroy();
      signal.addEventListener("abort", giveUp, { once: true });
      opened.write(Buffer.concat([greeting(), ready(type)]));
      await promise;
      // The signal covers the start only, which has succeeded.
      signal.removeEventListener("abort", giveUp);
      const socket = new KernelSocket(opened);
      if (type === "SUB") socket.send([SUBSCRIBE_TO_ALL]);
      return socket;
    }
  }

  send(frames: readonly Uint8Array[]): void {
    this.socket.write(message(frames));
  }

  close(): void {
    this.socket.destroy();
  }
}

/** Undefined: not listening yet. */
async function open(path: string): Promise<Socket | undefined> {
  const { promise, resolve } = Promise.withResolvers<Socket | undefined>();
  const socket = createConnection({ path });
  socket.once("connect", () => resolve(socket));
  socket.once("error", () => resolve(undefined));
  return promise;
}
