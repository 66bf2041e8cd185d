/**
 * Merges the tools, prompts, resources and resource templates of all servers, each with its server. Every list request
 * of a client queries the servers. A server that does not reply keeps its last known entries, and a call to it reports
 * why it fails.
 */
import { UriTemplate } from "@modelcontextprotocol/sdk/shared/uriTemplate.js";
import { ErrorCode, type Result } from "@modelcontextprotocol/sdk/types.js";
import { LIST_MS } from "./limits.ts";
import { prefixed, publicNames } from "./public-names.ts";
import { RpcError } from "./rpc-error.ts";
import type { StdioServer } from "./servers/stdio-server.ts";

const LIST_PAGES_MAX = 100;
const LIST_ENTRIES_MAX = 10_000;

type Entry = Record<string, unknown>;
interface ServerEntry {
  server: StdioServer;
  entry: Entry;
}

/**
 * List methods of MCP: the member that holds the entries, the capability of servers that have any, and the key of an
 * entry.
 */
const LISTS = {
  "tools/list": { entries: "tools", capability: "tools", key: "name" },
  "prompts/list": { entries: "prompts", capability: "prompts", key: "name" },
  "resources/list": { entries: "resources", capability: "resources", key: "uri" },
  "resources/templates/list": { entries: "resourceTemplates", capability: "resources", key: "uriTemplate" },
} as const;
type List = keyof typeof LISTS;

export function isList(method: string): method is List {
  return Object.hasOwn(LISTS, method);
}

export class MergedEntries {
  /** The last known lists, so that a call does not wait until all servers list their entries again. */
  readonly #known = new Map<List, Promise<ServerEntry[]>>();
  readonly #lastOf = new Map<string, ServerEntry[]>();

  constructor(
    private readonly servers: readonly StdioServer[],
    private readonly log: (line: string) => void,
  ) {}

  /** The whole list in one page. */
  async list(method: List): Promise<Result> {
    const { entries, key } = LISTS[method];
    const offers = await this.#list(method);
    if (key !== "name") return { [entries]: unique(offers, key).map(({ entry }) => entry) };
    const names = publicNames(offers.map(owned));
    return { [entries]: offers.map(({ entry }, at) => ({ ...entry, name: names[at] })) };
  }

  /** Discards the known lists after a change. */
  forget(): void {
    this.#known.clear();
  }

  /** The server of a tool or prompt, and the server's own name for it. */
  async find(method: "tools/list" | "prompts/list", name: string): Promise<{ server: StdioServer; name: string }> {
    const found = named(await this.#offers(method), name) ?? named(await this.#list(method), name);
    if (found !== undefined) return { server: found.server, name: nameOf(found) };
    const kind = LISTS[method].entries.slice(0, -1);
    throw new RpcError(ErrorCode.InvalidParams, `no server has a ${kind} ${JSON.stringify(name)}; ${method} has all`);
  }

  /** The server of a resource: the one that lists it, or has a matching template, or is the only one with resources. */
  async serverOf(uri: string): Promise<StdioServer> {
    const isIt = ({ entry }: ServerEntry) => entry.uri === uri;
    const listed = (await this.#offers("resources/list")).find(isIt) ?? (await this.#list("resources/list")).find(isIt);
    if (listed !== undefined) return listed.server;
    const templates = await this.#offers("resources/templates/list");
    const fitting = templates.find(({ entry }) => entry.uriTemplate === uri || fits(entry.uriTemplate, uri));
    if (fitting !== undefined) return fitting.server;
    const [only, ...others] = this.servers.filter(({ capabilities }) => capabilities.resources !== undefined);
    if (only !== undefined && others.length === 0) return only;
    throw new RpcError(ErrorCode.InvalidParams, `no server has a resource ${JSON.stringify(uri)}`);
  }

  #offers(method: List): Promise<ServerEntry[]> {
    return this.#known.get(method) ?? this.#list(method);
  }

  #list(method: List): Promise<ServerEntry[]> {
    const { capability } = LISTS[method];
    const able = this.servers.filter(({ capabilities }) => capabilities[capability] !== undefined);
    const listing = Promise.all(able.map((server) => this.#listOf(server, method))).then((lists) => lists.flat());
    this.#known.set(method, listing);
    return listing;
  }

  async #listOf(server: StdioServer, method: List): Promise<ServerEntry[]> {
    const key = `${method} ${server.name}`;
    const found: ServerEntry[] = [];
    let cursor: unknown;
    try {
      for (let page = 0; page < LIST_PAGES_MAX && found.length < LIST_ENTRIES_MAX; page++) {
        const params = cursor === undefined ? {} : { cursor };
        const result = await server.request({ method, params }, { timeout: LIST_MS });
        const entries = result[LISTS[method].entries];
        if (Array.isArray(entries)) found.push(...entries.filter(isEntry).map((entry) => ({ server, entry })));
        cursor = result.nextCursor;
        if (typeof cursor !== "string") break;
      }
    } catch (error) {
      const { code, message } = RpcError.from(error);
      // Many servers have resources, but do not support resource templates.
      if (code === ErrorCode.MethodNotFound) return [];
      this.log(`${server.name} does not answer ${method}: ${message}`);
      return this.#lastOf.get(key) ?? [];
    }
    const kept = found.slice(0, LIST_ENTRIES_MAX);
    this.#lastOf.set(key, kept);
    return kept;
  }
}

function named(offers: readonly ServerEntry[], name: string): ServerEntry | undefined {
  const at = publicNames(offers.map(owned)).indexOf(name);
  return at === -1 ? offers.find((offer) => prefixed(offer.server.name, nameOf(offer)) === name) : offers[at];
}

function owned(offer: ServerEntry): { server: string; name: string } {
  return { server: offer.server.name, name: nameOf(offer) };
}

function nameOf({ entry }: ServerEntry): string {
  return String(entry.name);
}

function isEntry(value: unknown): value is Entry {
  return typeof value === "object" && value !== null;
}

/** Keeps the first of equal entries. */
function unique(offers: readonly ServerEntry[], key: string): ServerEntry[] {
  return [...new Map([...offers].reverse().map((offer) => [offer.entry[key], offer])).values()].reverse();
}

function fits(template: unknown, uri: string): boolean {
  try {
    return new UriTemplate(String(template)).match(uri) !== null;
  } catch {
    return false;
  }
}
