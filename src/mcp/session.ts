/** One client's session: the server side of its streamable HTTP transport, and its unread notifications. */
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { RequestHandlerExtra } from "@modelcontextprotocol/sdk/shared/protocol.js";
import {
  type JSONRPCRequest,
  type LoggingLevel,
  LoggingLevelSchema,
  type Request as McpRequest,
  type Notification,
  type RequestId,
  type Result,
  type ServerCapabilities,
  SetLevelRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { REQUEST_MAX_BYTES } from "./limits.ts";
import { RpcError } from "./rpc-error.ts";
import { GATEWAY } from "./servers/stdio-server.ts";

/** Maximum unread notifications of a client; more are dropped. */
export const UNREAD_NOTIFICATIONS_MAX = 1_024;

/** The merged view of all servers at the start of a session. */
export interface SessionStart {
  capabilities: ServerCapabilities;
  instructions: string;
}

export interface Call {
  request: JSONRPCRequest;
  signal: AbortSignal;
  /** Does not wait for a slow client: notifications beyond the limit are dropped. */
  notify(notification: Notification): void;
}

interface SessionListener {
  call(session: Session, call: Call): Promise<Result>;
  levelChanged(session: Session): void;
  closed(session: Session): void;
}

/** Key of the stream that the client opens by GET. Streams of POSTs have their request ids as keys. */
const BY_GET: unique symbol = Symbol("GET");
/** A comment that starts the stream: without a first byte not even the headers of a response are sent. */
const FIRST = Buffer.from(": here\n\n");
type StreamKey = RequestId | typeof BY_GET;

export class Session {
  readonly id: string;
  /** Undefined: everything. */
  level: LoggingLevel | undefined;
  lastUsed = 0;
  readonly #server: Server;
  readonly #transport: WebStandardStreamableHTTPServerTransport;
  /** Unread notifications per stream. */
  readonly #unread = new Map<StreamKey, number>();

  constructor(
    id: string,
    { capabilities, instructions }: SessionStart,
    private readonly listener: SessionListener,
  ) {
    this.id = id;
    this.#transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      maxRequestBodySize: REQUEST_MAX_BYTES,
    });
    this.#server = new Server(GATEWAY, { capabilities, ...(instructions === "" ? {} : { instructions }) });
    this.#server.onclose = () => listener.closed(this);
    this.#server.fallbackRequestHandler = (request, extra) => this.#call(request, extra);
    if (capabilities.logging !== undefined) {
      this.#server.setRequestHandler(SetLevelRequestSchema, ({ params }) => {
        this.level = params.level;
        listener.levelChanged(this);
        return {};
      });
    }
  }

  /** `body` is the parsed body of a POST. */
  async handle(request: Request, body: unknown): Promise<Response> {
    if (this.#server.transport === undefined) await this.#server.connect(this.#transport);
    const keys: StreamKey[] = request.method === "GET" ? [BY_GET] : requestIds(body);
    if (request.method !== "GET") for (const key of keys) this.#unread.set(key, 0);
    const response = await this.#transport.handleRequest(request, body === undefined ? {} : { parsedBody: body });
    const isStream = response.headers.get("content-type") === "text/event-stream";
    if (response.body === null || !isStream) {
      if (request.method !== "GET") for (const key of keys) this.#unread.delete(key);
      return response;
    }
    if (request.method === "GET") this.#unread.set(BY_GET, 0);
    return new Response(this.#counted(response.body, keys), response);
  }

  /** Sends a notification that belongs to no call. */
  notify(notification: Notification): void {
    if (notification.method === "notifications/message" && !this.#passesLevel(notification)) return;
    if (this.#reserveRoom(BY_GET)) void this.#send(this.#server.notification(notification));
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  async #call(request: JSONRPCRequest, extra: RequestHandlerExtra<McpRequest, Notification>): Promise<Result> {
    let sent: Promise<unknown> = Promise.resolve();
    const notify = (notification: Notification) => {
      if (this.#reserveRoom(request.id)) sent = Promise.all([sent, this.#send(extra.sendNotification(notification))]);
    };
    try {
      const result = await this.listener.call(this, { request, signal: extra.signal, notify });
      // Nothing may follow the result, so wait until earlier notifications are sent.
      await sent;
      return result;
    } catch (error) {
      throw RpcError.from(error);
    }
  }

  #passesLevel({ params }: Notification): boolean {
    const levels: readonly unknown[] = LoggingLevelSchema.options;
    return this.level === undefined || levels.indexOf(params?.level) >= levels.indexOf(this.level);
  }

  #reserveRoom(key: StreamKey): boolean {
    const unread = this.#unread.get(key);
    if (unread === undefined || unread >= UNREAD_NOTIFICATIONS_MAX) return false;
    this.#unread.set(key, unread + 1);
    return true;
  }

  /** Ignores errors of a disconnected client. */
  #send(sent: Promise<void>): Promise<void> {
    return sent.catch(() => undefined);
  }

  /** The same stream, which counts each piece, that is one event, when the client has read it. */
  #counted(body: ReadableStream<Uint8Array>, keys: readonly StreamKey[]): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    const over = () => {
      for (const key of keys) this.#unread.delete(key);
    };
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => controller.enqueue(FIRST),
        pull: async (controller) => {
          const { done, value } = await reader.read();
          if (done) {
            over();
            controller.close();
            return;
          }
          for (const key of keys) this.#unread.set(key, Math.max(0, (this.#unread.get(key) ?? 0) - 1));
          controller.enqueue(value);
        },
        cancel: async (reason) => {
          over();
          await reader.cancel(reason);
        },
      },
      { highWaterMark: 0 },
    );
  }
}

function requestIds(body: unknown): RequestId[] {
  const messages = Array.isArray(body) ? (body as unknown[]) : [body];
  return messages.flatMap((message) => {
    const id = (message as { id?: unknown } | null)?.id;
    const isRequest = typeof (message as { method?: unknown } | null)?.method === "string";
    return isRequest && (typeof id === "string" || typeof id === "number") ? [id] : [];
  });
}
