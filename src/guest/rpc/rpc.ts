/** Connects Bun's Request and Response to the handlers of @connectrpc/connect, for all methods alike. */
import {
  Code,
  ConnectError,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type Interceptor,
  type ServiceImpl,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { Fault } from "../../contract/fault.ts";
import { INT32_MAX } from "../../contract/limits.ts";
import { Filesystem } from "../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { Process } from "../../contract/runtime/wire/process/process_pb.ts";
import { noteGarbage } from "../system/garbage.ts";
import { quote } from "../system/quote.ts";
import type { Account } from "../users/accounts.ts";
import { toConnectError } from "./connect-errors.ts";
import { endOfStream } from "./envelopes.ts";
import { Shortcut } from "./shortcut.ts";
import { correctedErrors, knownEnvelopes, strictJson } from "./strict-messages.ts";

export const GUEST_RPC_MESSAGE_MAX_BYTES = 64 * 1024 * 1024;

const TIMEOUT_HEADER = "connect-timeout-ms";
const BINARY_STREAM = "application/connect+proto";
const STREAM_TYPE = /^application\/connect\+(json|proto)\b/i;

/** The user of a call, looked up only when a method needs it. */
type UserLookup = () => Account;

const userKey = createContextKey<UserLookup>(
  () => {
    throw new ConnectError("the call carries no user", Code.Internal);
  },
  { description: "the caller's user" },
);

export function callUser(context: HandlerContext): Account {
  return context.values.get(userKey)();
}

const shortcutKey = createContextKey(new Shortcut(), { description: "the way past the library" });

/** For services that encode the envelopes of a stream themselves. */
export function callShortcut(context: HandlerContext): Shortcut {
  return context.values.get(shortcutKey);
}

export interface RpcRoutes {
  has(path: string): boolean;
  handle(request: Request, url: URL, user: UserLookup): Promise<Response>;
  /** The response for a request rejected before the call, in the form its content type requires. */
  refusal(request: Request, thrown: unknown): Response;
}

export function createRpcRoutes(
  process: ServiceImpl<typeof Process>,
  filesystem: ServiceImpl<typeof Filesystem>,
): RpcRoutes {
  const router = createConnectRouter({
    grpc: false,
    grpcWeb: false,
    connect: true,
    readMaxBytes: GUEST_RPC_MESSAGE_MAX_BYTES,
    jsonOptions: strictJson,
    requestGate: (context) => requireKnownVersion(context.requestHeader),
    interceptors: [convertErrors],
  });
  router.service(Process, process).service(Filesystem, filesystem);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  return {
    has: (path) => handlers.has(path),
    async handle(request, url, user) {
      const handler = handlers.get(url.pathname);
      if (handler === undefined) throw new ConnectError("there is no such method", Code.Unimplemented);
      return invoke(request, url, handler, user);
    },
    refusal: (request, thrown) =>
      errorResponse(request, toConnectError(thrown, request.headers), Fault.from(thrown).status),
  };
}

async function invoke(request: Request, url: URL, handler: UniversalHandler, user: UserLookup): Promise<Response> {
  const type = request.headers.get("content-type") ?? "";
  const gone = new AbortController();
  const { signal } = request;
  signal.addEventListener("abort", () => gone.abort(signal.reason));
  // The client may have disconnected while this part of the guest was loaded.
  if (signal.aborted) gone.abort(signal.reason);
  const shortcut = new Shortcut();
  const response = await handler({
    httpVersion: "1.1",
    method: request.method,
    url: url.href,
    header: withBoundedTimeout(request.headers),
    body: STREAM_TYPE.test(type) ? knownEnvelopes(bodyChunks(request)) : bodyChunks(request),
    signal: gone.signal,
    contextValues: createContextValues().set(userKey, user).set(shortcutKey, shortcut),
  });
  if (response.header?.get("content-type")?.startsWith(BINARY_STREAM)) shortcut.codec = "proto";
  return toResponse(await correctedErrors(response), handler, gone, shortcut);
}

/** Timers hold 31 bits: a timeout above 24 days is reduced to that instead of firing at once. */
function withBoundedTimeout(headers: Headers): Headers {
  const text = headers.get(TIMEOUT_HEADER);
  if (text === null || !/^\d{10}$/.test(text) || Number(text) <= INT32_MAX) return headers;
  const bounded = new Headers(headers);
  bounded.set(TIMEOUT_HEADER, String(INT32_MAX));
  return bounded;
}

async function* bodyChunks(request: Request): AsyncGenerator<Uint8Array> {
  if (request.body === null) return;
  for await (const chunk of request.body) {
    noteGarbage(chunk.length);
    yield chunk;
  }
}

function requireKnownVersion(headers: Headers): void {
  const version = headers.get("connect-protocol-version");
  if (version !== null && version !== "1") {
    throw new ConnectError(`Connect-Protocol-Version must be "1", got ${quote(version)}`, Code.InvalidArgument);
  }
}

const convertErrors: Interceptor = (next) => async (request) => {
  try {
    // A call whose deadline has passed must have no effect.
    request.signal.throwIfAborted();
    const response = await next(request);
    return response.stream ? { ...response, message: withConvertedErrors(response.message, request.header) } : response;
  } catch (thrown) {
    throw toConnectError(thrown, request.header);
  }
};

async function* withConvertedErrors<T>(messages: AsyncIterable<T>, headers: Headers): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (thrown) {
    throw toConnectError(thrown, headers);
  }
}

function toResponse(
  response: UniversalServerResponse,
  handler: UniversalHandler,
  gone: AbortController,
  shortcut: Shortcut,
): Response {
  const headers = new Headers(response.header);
  if (response.status === 405) headers.set("Allow", handler.allowedMethods.join(", "));
  if (response.status === 415) headers.set("Accept-Post", acceptedTypes(handler));
  const body = response.body === undefined ? null : toStream(response.body, gone, shortcut);
  return new Response(body, { status: response.status, headers });
}

function acceptedTypes(handler: UniversalHandler): string {
  return handler.method.methodKind === "unary"
    ? "application/json, application/proto"
    : "application/connect+json, application/connect+proto";
}

function toStream(
  messages: AsyncIterable<Uint8Array>,
  gone: AbortController,
  shortcut: Shortcut,
): ReadableStream<Uint8Array> {
  const next = shortcut.merged(messages[Symbol.asyncIterator]());
  // Pieces are produced only when the socket asks for them, so a slow client holds the source back.
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const piece = next();
        return piece instanceof Promise ? piece.then((late) => pass(late, controller)) : pass(piece, controller);
      },
      cancel(reason) {
        shortcut.close();
        gone.abort(reason ?? new ConnectError("the client went away", Code.Canceled));
      },
    },
    { highWaterMark: 0 },
  );
}

function pass(piece: Uint8Array | undefined, controller: ReadableStreamDefaultController<Uint8Array>): void {
  if (piece === undefined) controller.close();
  else controller.enqueue(piece);
}

function errorResponse(request: Request, error: ConnectError, status: number): Response {
  const json = Buffer.from(errorToJsonBytes(error, undefined));
  const type = request.headers.get("content-type") ?? "";
  if (!STREAM_TYPE.test(type)) {
    return new Response(json, { status, headers: { "Content-Type": "application/json" } });
  }
  return new Response(endOfStream(`{"error":${json}}`), { status: 200, headers: { "Content-Type": type } });
}
