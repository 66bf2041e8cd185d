/** Keep-alive connections that repeat the same small request. */
import { Fault } from "../../src/contract/fault.ts";
import { timed } from "../figures/samples.ts";
import { ResponseCounter } from "./response-counter.ts";

const ANSWERED_MS = 60_000;

export interface Target {
  hostname: string;
  port: number;
  /** The Host header, which the certificate must match. */
  host: string;
  path: string;
  /** The trusted certificate. Absent: no TLS. */
  ca?: string;
}

interface Kept {
  counter: ResponseCounter;
  answered: PromiseWithResolvers<void>;
}

export class KeptConnections implements Disposable {
  readonly #request: string;
  readonly #sockets: Bun.Socket<Kept>[] = [];

  private constructor({ host, path }: Target) {
    const headers = ["Accept: */*", "User-Agent: sandlot-bench"].join("\r\n");
    this.#request = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n\r\n`;
  }

  /** Resolves when each connection has completed one request. */
  static async open(target: Target, count: number): Promise<KeptConnections> {
    const kept = new KeptConnections(target);
    try {
      for (let nth = 0; nth < count; nth++) kept.#sockets.push(await connect(target));
      await kept.ask(count);
      return kept;
    } catch (failure) {
      kept[Symbol.dispose]();
      throw failure;
    }
  }

  async askMs(requests: number): Promise<number> {
    return await timed(() => this.ask(requests));
  }

  /** Sends this many requests in total, one at a time per connection. */
  async ask(requests: number): Promise<void> {
    let left = requests;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Fault(500, `${requests} requests were not answered within ${ANSWERED_MS} ms`)),
      ANSWERED_MS,
    );
    const work = this.#sockets.map(async (socket) => {
      while (left-- > 0) {
        socket.data.answered = Promise.withResolvers();
        socket.write(this.#request);
        await socket.data.answered.promise;
      }
    });
    try {
      await Promise.race([Promise.all(work), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.terminate();
  }
}

async function connect({ hostname, port, host, ca }: Target): Promise<Bun.Socket<Kept>> {
  const ready = Promise.withResolvers<void>();
  const failed = (socket: Bun.Socket<Kept>, reason: string) => {
    const fault = new Fault(500, `the connection to ${host} at ${hostname}:${port} ${reason}`);
    ready.reject(fault);
    socket.data.answered.reject(fault);
  };
  const data = newKept();
  const socket = await Bun.connect<Kept>({
    hostname,
    port,
    data,
    ...(ca === undefined ? {} : { tls: { ca, serverName: host } }),
    socket: {
      open: () => {
        if (ca === undefined) ready.resolve();
      },
      handshake: (one, _success, error) => {
        if (error) failed(one, `cannot be trusted: ${error.message}`);
        else ready.resolve();
      },
      data: (one, piece) => {
        try {
          if (one.data.counter.take(piece) > 0) one.data.answered.resolve();
        } catch (thrown) {
          one.data.answered.reject(thrown);
        }
      },
      close: (one) => failed(one, "was closed"),
      error: (one, error) => failed(one, `failed: ${error.message}`),
    },
  });
  await ready.promise;
  return socket;
}

/** Ignore rejections that no caller awaits. */
function newKept(): Kept {
  const answered = Promise.withResolvers<void>();
  answered.promise.catch(() => undefined);
  return { counter: new ResponseCounter(), answered };
}
