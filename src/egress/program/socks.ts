/** Requests a connection to an address from a SOCKS5 server (RFC 1928, 1929). */
import type { EgressPolicy } from "../../contract/internal/host.ts";
import type { Peer } from "./peer.ts";

type Proxy = NonNullable<EgressPolicy["proxy"]>;

const VERSION = 5;
const NO_LOGIN = 0;
const PASSWORD_LOGIN = 2;
const LOGIN_VERSION = 1;
const LOGIN_MAX_BYTES = 255;
const CONNECT = 1;
const IPV4 = 1;
const NAME = 3;
const IPV6 = 4;
const GRANTED = 0;

/** Whether the proxy granted it. The peer is paused then; its later bytes come from the destination. */
export async function connectThroughProxy(peer: Peer, proxy: Proxy, address: string, port: number): Promise<boolean> {
  const answers = new Answers(peer);
  const login = proxy.credentials;
  const methods = login === null ? [NO_LOGIN] : [NO_LOGIN, PASSWORD_LOGIN];
  peer.write(Buffer.from([VERSION, methods.length, ...methods]));
  const [version, method] = await answers.next(2);
  if (version !== VERSION) return false;
  if (method === PASSWORD_LOGIN && login !== null) {
    const [username, password] = [Buffer.from(login.username), Buffer.from(login.password)];
    if (username.length > LOGIN_MAX_BYTES || password.length > LOGIN_MAX_BYTES) return false;
    peer.write(Buffer.from([LOGIN_VERSION, username.length, ...username, password.length, ...password]));
    const [, refused] = await answers.next(2);
    if (refused !== 0) return false;
  } else if (method !== NO_LOGIN) return false;

  peer.write(Buffer.from([VERSION, CONNECT, 0, IPV4, ...address.split(".").map(Number), port >> 8, port & 255]));
  const [answerVersion, reply, , kind] = await answers.next(4);
  if (answerVersion !== VERSION || reply !== GRANTED) return false;
  // The reply carries the proxy's own address, which must be skipped: the destination's bytes follow it.
  const length = kind === IPV4 ? 4 : kind === IPV6 ? 16 : kind === NAME ? ((await answers.next(1))[0] ?? 0) : undefined;
  if (length === undefined) return false;
  await answers.next(length + 2);
  return answers.leave();
}

/** Reads a given number of bytes from the server; returns an empty buffer once it has ended. */
class Answers {
  #bytes = Buffer.alloc(0);
  #wanted = 0;
  #isOver = false;
  #wake: () => void = () => undefined;

  constructor(private readonly peer: Peer) {
    const over = () => {
      this.#isOver = true;
      this.#wake();
    };
    peer.events = {
      data: (bytes) => {
        this.#bytes = Buffer.concat([this.#bytes, bytes]);
        if (this.#bytes.length >= this.#wanted) {
          peer.pause();
          this.#wake();
        }
      },
      end: over,
      room: () => undefined,
    };
  }

  async next(count: number): Promise<Buffer> {
    this.#wanted = count;
    if (this.#bytes.length < count && !this.#isOver) {
      const enough = Promise.withResolvers<void>();
      this.#wake = enough.resolve;
      this.peer.resume();
      await enough.promise;
    }
    if (this.#bytes.length < count) return Buffer.alloc(0);
    const taken = this.#bytes.subarray(0, count);
    this.#bytes = this.#bytes.subarray(count);
    return taken;
  }

  leave(): boolean {
    this.peer.pause();
    this.peer.putBack(this.#bytes);
    return !this.#isOver || this.#bytes.length > 0;
  }
}
