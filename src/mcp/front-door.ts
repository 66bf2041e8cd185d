/** The gateway's HTTP interface: one path, the token check, and the sessions. */
import { isInitializeRequest } from "@modelcontextprotocol/sdk/types.js";
import { kernelRandomBytes } from "../base/kernel-random.ts";
import { type AccessToken, isBearer } from "./access-token.ts";
import type { Gateway } from "./gateway.ts";
import { REQUEST_MAX_BYTES } from "./limits.ts";
import { Session } from "./session.ts";

/** Beyond this, the session that was idle longest is closed. */
export const SESSIONS_MAX = 256;

export const MCP_PORT = 50_005;
const PATH = "/mcp";
const SESSION_HEADER = "mcp-session-id";
const SESSION_ID_BYTES = 16;

/** Pages of any origin may send requests: without the token they get no data. */
const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
  "access-control-allow-headers": "authorization, content-type, mcp-session-id, mcp-protocol-version, last-event-id",
  "access-control-expose-headers": SESSION_HEADER,
};

export class FrontDoor {
  /** Sessions in order of last use. */
  readonly #sessions = new Map<string, Session>();

  constructor(
    private readonly gateway: Gateway,
    private readonly token: AccessToken,
  ) {}

  async handle(request: Request): Promise<Response> {
    const response = await this.#handle(request);
    for (const [name, value] of Object.entries(CORS)) response.headers.set(name, value);
    return response;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions.values()].map((session) => session.close()));
  }

  async #handle(request: Request): Promise<Response> {
    if (request.method === "OPTIONS") return new Response(null, { status: 204 });
    if (!isBearer(this.token, request.headers.get("authorization"))) {
      const response = refusal(401, -32001, "the access token is missing or wrong; send it as Authorization: Bearer");
      response.headers.set("www-authenticate", 'Bearer realm="mcp-gateway"');
      return response;
    }
    if (new URL(request.url).pathname !== PATH) return refusal(404, -32000, `the gateway has nothing but ${PATH}`);
    if (request.method !== "POST") return await this.#inSession(request, undefined);
    const text = await request.text();
    if (Buffer.byteLength(text) > REQUEST_MAX_BYTES) {
      return refusal(413, -32000, `a request has at most ${REQUEST_MAX_BYTES} bytes`);
    }
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      return refusal(400, -32700, "the body is not JSON");
    }
    // The transport needs only method and headers from this; it gets the parsed body separately.
    const head = new Request(request.url, { method: "POST", headers: request.headers });
    if (request.headers.get(SESSION_HEADER) !== null || !isInitializeRequest(body)) {
      return await this.#inSession(head, body);
    }
    return await this.#begin(head, body);
  }

  async #inSession(request: Request, body: unknown): Promise<Response> {
    const id = request.headers.get(SESSION_HEADER);
    if (id === null) return refusal(400, -32000, "no session; begin one with initialize, then send Mcp-Session-Id");
    const session = this.#sessions.get(id);
    if (session === undefined) return refusal(404, -32001, "no such session; begin another one with initialize");
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    return await session.handle(request, body);
  }

  async #begin(request: Request, body: unknown): Promise<Response> {
    const [oldest] = this.#sessions.values();
    if (oldest !== undefined && this.#sessions.size >= SESSIONS_MAX) await oldest.close();
    const session = new Session(kernelRandomBytes(SESSION_ID_BYTES).toHex(), this.gateway.greeting(), {
      call: (own, call) => this.gateway.call(own, call),
      levelChanged: () => this.gateway.levelChanged(),
      closed: (own) => {
        this.#sessions.delete(own.id);
        this.gateway.closed(own);
      },
    });
    const response = await session.handle(request, body);
    if (!response.ok) {
      await session.close();
      return response;
    }
    this.#sessions.set(session.id, session);
    this.gateway.opened(session);
    return response;
  }
}

/** An MCP error that belongs to no request. */
function refusal(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status });
}
