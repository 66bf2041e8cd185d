/**
 * What all servers have together: tools, prompts, resources and templates of resources, each with the server that it
 * comes from. Servers are asked each time that a client asks; one that does not answer still has what it had last, and
 * says to callers itself why it does not answer.
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
interface Offer {
  server: StdioServer;
  entry: Entry;
}

/** Lists of MCP, by method: where the entries are in the answer, who has any, and what tells them apart. */
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

export class Offers {
  readonly #servers: readonly StdioServer[];
  readonly #log: (line: string) => void;
  /** Of the last time that each was asked for: a call does not wait for all servers to say anew what they have. */
  readonly #known = new Map<List, Promise<Offer[]>>();
  readonly #lastOf = new Map<string, Offer[]>();

  constructor(servers: readonly StdioServer[], log: (line: string) => void) {
    this.#servers = servers;
    this.#log = log;
  }

  /** The whole list at once, as the answer to a client. */
  async list(method: List): Promise<Result> {
    const { entries, key } = LISTS[method];
    const offers = await this.#ask(method);
    if (key !== "name") return { [entries]: unique(offers, key).map(({ entry }) => entry) };
    const names = publicNames(offers.map(owned));
    return { [entries]: offers.map(({ entry }, at) => ({ ...entry, name: names[at] })) };
  }

  /** Something is different now. */
  forget(): void {
    this.#known.clear();
  }

  /** The server that has a tool or prompt, and what it calls it. */
  async find(method: "tools/list" | "prompts/list", name: string): Promise<{ server: StdioServer; name: string }> {
    const found = named(await this.#offers(method), name) ?? named(await this.#ask(method), name);
    if (found !== undefined) return { server: found.server, name: nameOf(found) };
    const kind = LISTS[method].entries.slice(0, -1);
    throw new RpcError(ErrorCode.InvalidParams, `no server has a ${kind} ${JSON.stringify(name)}; ${method} has all`);
  }

  /** The server of a resource: the one that lists it, or has a template that fits, or is the only one with any. */
  async serverOf(uri: string): Promise<StdioServer> {
    const isIt = ({ entry }: Offer) => entry.uri === uri;
    const listed = (await this.#offers("resources/list")).find(isIt) ?? (await this.#ask("resources/list")).find(isIt);
    if (listed !== undefined) return listed.server;
    const templates = await this.#offers("resources/templates/list");
    const fitting = templates.find(({ entry }) => entry.uriTemplate === uri || fits(entry.uriTemplate, uri));
    if (fitting !== undefined) return fitting.server;
    const [only, ...others] = this.#servers.filter(({ capabilities }) => capabilities.resources !== undefined);
    if (only !== undefined && others.length === 0) return only;
    throw new RpcError(ErrorCode.InvalidParams, `no server has a resource ${JSON.stringify(uri)}`);
  }

  #offers(method: List): Promise<Offer[]> {
    return this.#known.get(method) ?? this.#ask(method);
  }

  #ask(method: List): Promise<Offer[]> {
    const { capability } = LISTS[method];
    const able = this.#servers.filter(({ capabilities }) => capabilities[capability] !== undefined);
    const asked = Promise.all(able.map((server) => this.#askOne(server, method))).then((lists) => lists.flat());
    this.#known.set(method, asked);
    return asked;
  }

  async #askOne(server: StdioServer, method: List): Promise<Offer[]> {
    const key = `${method} ${server.name}`;
    const found: Offer[] = [];
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
      // Many have resources, and none of the templates that go with them.
      if (code === ErrorCode.MethodNotFound) return [];
      this.#log(`${server.name} does not answer ${method}: ${message}`);
      return this.#lastOf.get(key) ?? [];
    }
    const kept = found.slice(0, LIST_ENTRIES_MAX);
    this.#lastOf.set(key, kept);
    return kept;
  }
}

function named(offers: readonly Offer[], name: string): Offer | undefined {
  const at = publicNames(offers.map(owned)).indexOf(name);
  return at === -1 ? offers.find((offer) => prefixed(offer.server.name, nameOf(offer)) === name) : offers[at];
}

function owned(offer: Offer): { server: string; name: string } {
  return { server: offer.server.name, name: nameOf(offer) };
}

function nameOf({ entry }: Offer): string {
  return String(entry.name);
}

function isEntry(value: unknown): value is Entry {
  return typeof value === "object" && value !== null;
}

/** Of two that are the same, the first. */
function unique(offers: readonly Offer[], key: string): Offer[] {
  return [...new Map([...offers].reverse().map((offer) => [offer.entry[key], offer])).values()].reverse();
}

function fits(template: unknown, uri: string): boolean {
  try {
    return new UriTemplate(String(template)).match(uri) !== null;
  } catch {
    return false;
  }
}
