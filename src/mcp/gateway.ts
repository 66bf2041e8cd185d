/**
 * Connects sessions and servers: forwards each call to the server that offers the requested item, and each notification
 * of a server to the sessions that it concerns.
 */
import {
  type CompleteRequest,
  ErrorCode,
  LoggingLevelSchema,
  type Notification,
  type Progress,
  type Result,
  type ServerCapabilities,
} from "@modelcontextprotocol/sdk/types.js";
import type { ServerPlan } from "./config.ts";
import { LIST_MS } from "./limits.ts";
import { isList, MergedEntries } from "./merged-entries.ts";
import { RpcError } from "./rpc-error.ts";
import type { Account } from "./servers/run-as-user.ts";
import { type ServerListener, StdioServer } from "./servers/stdio-server.ts";
import type { Call, Session, SessionStart } from "./session.ts";

/** Timeout of a call since its last progress. A client that gives up cancels the call earlier. */
export const CALL_MS = 3_600_000;
/** Maximum concurrent calls of all sessions. */
export const CALLS_MAX = 1_024;
const INSTRUCTIONS_MAX_CHARS = 16_384;
const SUBSCRIPTIONS_MAX = 4_096;

const CAPABILITIES = ["tools", "prompts", "resources", "logging", "completions"] as const;

export class Gateway implements ServerListener {
  readonly #servers: readonly StdioServer[];
  readonly #offers: MergedEntries;
  readonly #log: (line: string) => void;
  readonly #sessions = new Set<Session>();
  /** Sessions that subscribe to a resource, by resource. */
  readonly #subscribers = new Map<string, Set<Session>>();
  #calls = 0;

  /** Servers run as the account, or as the gateway's user without one. */
  constructor(plans: readonly ServerPlan[], account: Account | undefined, log: (line: string) => void) {
    this.#log = log;
    this.#servers = plans.map((plan) => new StdioServer(plan, account, this));
    this.#offers = new MergedEntries(this.#servers, log);
  }

  /** Starts all servers or none; the failing server's message is the reason. */
  async start(signal: AbortSignal): Promise<void> {
    const started = await Promise.allSettled(this.#servers.map((server) => server.start(signal)));
    const failed = started.find((outcome) => outcome.status === "rejected");
    if (failed === undefined) return;
    await this.close();
    throw failed.reason;
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
  }

  greeting(): SessionStart {
    const all = this.#servers.map(({ capabilities }) => capabilities);
    const capabilities: ServerCapabilities = {};
    for (const name of CAPABILITIES) if (all.some((one) => one[name] !== undefined)) capabilities[name] = {};
    for (const name of ["tools", "prompts", "resources"] as const) {
      if (capabilities[name] !== undefined) capabilities[name] = { listChanged: true };
    }
    if (all.some(({ resources }) => resources?.subscribe === true)) {
      capabilities.resources = { listChanged: true, subscribe: true };
    }
    const instructions = this.#servers.flatMap(({ name, instructions = "" }) =>
      instructions === "" ? [] : [`${name}: ${instructions}`],
    );
    return { capabilities, instructions: instructions.join("\n\n").slice(0, INSTRUCTIONS_MAX_CHARS) };
  }

  opened(session: Session): void {
    this.#sessions.add(session);
  }

  closed(session: Session): void {
    this.#sessions.delete(session);
    for (const uri of [...this.#subscribers.keys()]) {
      this.#unsubscribe(session, uri).catch((error) => this.#log(RpcError.from(error).message));
    }
  }

  levelChanged(): void {
    for (const server of this.#servers) this.#tellLevel(server);
  }

  async call(session: Session, call: Call): Promise<Result> {
    if (this.#calls >= CALLS_MAX) {
      throw new RpcError(ErrorCode.InternalError, `${CALLS_MAX} calls run already; wait for one of them to end`);
    }
    this.#calls++;
    try {
      return await this.#route(session, call);
    } finally {
      this.#calls--;
    }
  }

  started(server: StdioServer): void {
    this.#log(`${server.name} runs again`);
    this.#offers.forget();
    this.#tellLevel(server);
    for (const uri of this.#subscribers.keys()) {
      this.#forwardSubscription("resources/subscribe", uri, server).catch((error) =>
        this.#log(RpcError.from(error).message),
      );
    }
  }

  notified(_server: StdioServer, notification: Notification): void {
    if (notification.method.endsWith("/list_changed")) this.#offers.forget();
    const uri = notification.method === "notifications/resources/updated" ? notification.params?.uri : undefined;
    const concerned = uri === undefined ? this.#sessions : (this.#subscribers.get(String(uri)) ?? []);
    for (const session of concerned) session.notify(notification);
  }

  log(line: string): void {
    this.#log(line);
  }

  async #route(session: Session, call: Call): Promise<Result> {
    const { method, params = {} } = call.request;
    if (isList(method)) return await this.#offers.list(method);
    switch (method) {
      case "tools/call":
      case "prompts/get": {
        const list = method === "tools/call" ? "tools/list" : "prompts/list";
        const { server, name } = await this.#offers.find(list, String(params.name));
        return await forward(server, call, { ...params, name });
      }
      case "resources/read":
        return await forward(await this.#offers.serverOf(String(params.uri)), call, params);
      case "resources/subscribe":
        return await this.#subscribe(session, String(params.uri));
      case "resources/unsubscribe":
        return await this.#unsubscribe(session, String(params.uri));
      case "completion/complete":
        return await this.#complete(call, params as CompleteRequest["params"]);
      default:
        throw new RpcError(ErrorCode.MethodNotFound, `the gateway has no method ${JSON.stringify(method)}`);
    }
  }

  async #complete(call: Call, params: CompleteRequest["params"]): Promise<Result> {
    const { ref } = params;
    if (ref.type === "ref/resource") return await forward(await this.#offers.serverOf(ref.uri), call, params);
    const { server, name } = await this.#offers.find("prompts/list", ref.name);
    return await forward(server, call, { ...params, ref: { ...ref, name } });
  }

  async #subscribe(session: Session, uri: string): Promise<Result> {
    const subscribers = this.#subscribers.get(uri) ?? new Set();
    if (subscribers.size === 0) {
      if (this.#subscribers.size >= SUBSCRIPTIONS_MAX) {
        throw new RpcError(ErrorCode.InvalidParams, `at most ${SUBSCRIPTIONS_MAX} resources can be subscribed to`);
      }
      await this.#forwardSubscription("resources/subscribe", uri);
    }
    this.#subscribers.set(uri, subscribers.add(session));
    return {};
  }

  /** The server is told when the last subscriber leaves. */
  async #unsubscribe(session: Session, uri: string): Promise<Result> {
    const subscribers = this.#subscribers.get(uri);
    if (subscribers?.delete(session) !== true || subscribers.size > 0) return {};
    this.#subscribers.delete(uri);
    await this.#forwardSubscription("resources/unsubscribe", uri);
    return {};
  }

  /** Sends to the server of the resource; if `only` is given, just when it is that server. */
  async #forwardSubscription(method: string, uri: string, only?: StdioServer): Promise<void> {
    const server = await this.#offers.serverOf(uri);
    if (only === undefined || only === server) await server.request({ method, params: { uri } }, { timeout: LIST_MS });
  }

  /** Sets a server to the most verbose level of all sessions; each session filters by its own level. */
  #tellLevel(server: StdioServer): void {
    const levels = LoggingLevelSchema.options;
    const wanted = [...this.#sessions].flatMap(({ level }) => (level === undefined ? [] : [levels.indexOf(level)]));
    if (wanted.length === 0 || server.capabilities.logging === undefined) return;
    const level = levels[Math.min(...wanted)];
    server
      .request({ method: "logging/setLevel", params: { level } }, { timeout: LIST_MS })
      .catch((error) => this.#log(`${server.name} takes no level: ${RpcError.from(error).message}`));
  }
}

/** Forwards a call unchanged except for the name; progress and cancellation pass as well. */
function forward(server: StdioServer, { request, signal, notify }: Call, params: Call["request"]["params"]) {
  const { _meta, ...rest } = params ?? {};
  const { progressToken, ...meta } = _meta ?? {};
  const options = { signal, timeout: CALL_MS, resetTimeoutOnProgress: true };
  // The server gets a new progress token, because tokens of different sessions may be equal.
  const forwarded = { method: request.method, params: _meta === undefined ? rest : { ...rest, _meta: meta } };
  if (progressToken === undefined) return server.request(forwarded, options);
  const onprogress = (progress: Progress) =>
    notify({ method: "notifications/progress", params: { ...progress, progressToken } });
  return server.request(forwarded, { ...options, onprogress });
}
