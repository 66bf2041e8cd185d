/**
 * HTTP/2 sessions of clients. Node's HTTP/2 module handles the frames. Each stream becomes a request like those of
 * HTTP/1.1 and is checked as strictly, because its headers become HTTP/1.1 lines for the service.
 */
import { constants, createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import { EDGE_HTTP2_WINDOW_BYTES, EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MAX_LINES } from "../limits.ts";
import type { ClientRequest } from "./client-request.ts";
import type { Http2Connection } from "./http2-connection.ts";
import { headOf } from "./http2-head.ts";
import { Http2Request } from "./http2-request.ts";

/** Maximum concurrent requests on one HTTP/2 connection. */
const EDGE_HTTP2_STREAMS_MAX = 256;

/** Flag: no DATA follows. */
const END_STREAM = 1;

export class Http2Sessions {
  readonly #server: Http2Server;
  readonly #sessions = new Map<ServerHttp2Session, Http2Connection | undefined>();
  /** The connection of the session that begins next. */
  #beginning: Http2Connection | undefined;
  #isFinishing = false;

  constructor(private readonly handle: (request: ClientRequest) => void) {
    this.#server = createServer({
      maxHeaderListPairs: EDGE_REQUEST_HEAD_MAX_LINES,
      settings: {
        maxConcurrentStreams: EDGE_HTTP2_STREAMS_MAX,
        initialWindowSize: EDGE_HTTP2_WINDOW_BYTES,
        maxHeaderListSize: EDGE_REQUEST_HEAD_MAX_BYTES,
        enablePush: false,
      },
    });
    this.#server.on("session", (session) => {
      this.#sessions.set(session, this.#beginning);
      session.setLocalWindowSize(EDGE_HTTP2_WINDOW_BYTES);
      session.on("close", () => this.#sessions.delete(session));
      session.on("error", () => session.destroy());
    });
    this.#server.on("sessionError", () => undefined);
    this.#server.on("stream", (stream, _headers, flags, raw: unknown) => {
      this.#begun(stream as ServerHttp2Stream, flags, raw as string[]);
    });
  }

  begin(connection: Http2Connection): void {
    this.#beginning = connection;
    this.#server.emit("connection", connection);
    this.#beginning = undefined;
  }

  /**
   * Closes each session once it has no requests. Announcing the close (GOAWAY) during requests makes some clients, the
   * official one among them, abort running downloads.
   */
  finish(): void {
    this.#isFinishing = true;
    for (const [session, connection] of this.#sessions) this.#closeIfIdle(session, connection);
  }

  #closeIfIdle(session: ServerHttp2Session, connection: Http2Connection | undefined): void {
    if (connection?.isIdle !== false) session.close();
  }

  #begun(stream: ServerHttp2Stream, flags: number, raw: readonly string[]): void {
    // Without a listener, an error event would throw.
    stream.on("error", () => undefined);
    const hasEnded = (flags & END_STREAM) !== 0;
    const head = headOf(raw, hasEnded);
    const session = stream.session as ServerHttp2Session;
    const connection = this.#sessions.get(session);
    if (head === undefined || connection === undefined) {
      stream.close(constants.NGHTTP2_PROTOCOL_ERROR);
      return;
    }
    const request = new Http2Request(stream, head, connection, hasEnded);
    connection.requestBegun(request);
    stream.on("close", () => {
      connection.requestOver(request);
      request.leave();
      if (this.#isFinishing) this.#closeIfIdle(session, connection);
    });
    this.handle(request);
  }
}
