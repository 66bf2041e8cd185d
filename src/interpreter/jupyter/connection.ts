/** The three kernel sockets that a client without input needs, and requests over them. */
import { writeFile } from "node:fs/promises";
import { kernelUuid } from "../../base/kernel-random.ts";
import { framesOf, type Received, received, type Session } from "./message.ts";
import { KernelSocket } from "./socket.ts";
import type { Message } from "./zmtp.ts";

/** Interval of probes until a new kernel replies. */
const KERNEL_ASK_AGAIN_MS = 200;

/** Port numbers become suffixes of socket file names. */
const PORTS = { shell: 1, iopub: 2, stdin: 3, control: 4, hb: 5 } as const;

interface Listener {
  /** A reply to a request, or a message published to all. */
  onReceived(from: "shell" | "iopub", message: Received): void;
  onLeftOut(bytes: number): void;
  onLost(): void;
}

export class KernelConnection {
  /** Settles when all published messages are read: the kernel has closed that socket. */
  readonly read: Promise<void>;
  #requests = 0;

  private constructor(
    private readonly shell: KernelSocket,
    private readonly iopub: KernelSocket,
    private readonly session: Session,
  ) {
    this.read = iopub.closed;
  }

  /** Writes the connection file of a kernel; its sockets will be beside it. */
  static async describe(file: string): Promise<Session> {
    const session = { key: kernelUuid(), id: kernelUuid() };
    const ports = Object.entries(PORTS).map(([name, port]) => [`${name}_port`, port]);
    const content = {
      transport: "ipc",
      ip: prefixOf(file),
      key: session.key,
      signature_scheme: "hmac-sha256",
      ...Object.fromEntries(ports),
    };
    await writeFile(file, JSON.stringify(content), { mode: 0o600 });
    return session;
  }

  /** Resolves when both sockets work: requests arrive and published messages are received, in either order. */
  static async open(
    file: string,
    session: Session,
    signal: AbortSignal,
    listener: Listener,
  ): Promise<KernelConnection> {
    let isHeard = false;
    let isSubscribed = false;
    const reader = (from: "shell" | "iopub") => (message: Message) => {
      if ("leftOutBytes" in message) return listener.onLeftOut(message.leftOutBytes);
      // Published messages start with their topic.
      const known = received(message.frames);
      if (from === "iopub") isHeard = true;
      else isSubscribed = true;
      listener.onReceived(from, known);
    };
    const connect = (name: "shell" | "iopub") =>
      KernelSocket.connect(`${prefixOf(file)}-${PORTS[name]}`, name === "shell" ? "DEALER" : "SUB", {
        signal,
        onMessage: reader(name),
        onLost: listener.onLost,
      });
    const iopub = await connect("iopub");
    const connection = new KernelConnection(await connect("shell"), iopub, session);
    while (!isHeard || !isSubscribed) {
      signal.throwIfAborted();
      connection.request("kernel_info_request", {});
      for (let waited = 0; waited < KERNEL_ASK_AGAIN_MS && !(isHeard && isSubscribed); waited += 5) await Bun.sleep(5);
    }
    return connection;
  }

  /** Returns the id that replies refer to. */
  request(type: string, content: unknown): string {
    const id = `${this.session.id}-${++this.#requests}`;
    this.shell.send(framesOf(this.session, id, type, content));
    return id;
  }

  close(): void {
    this.shell.close();
    this.iopub.close();
  }
}

function prefixOf(file: string): string {
  return file.replace(/\.json$/, "");
}
