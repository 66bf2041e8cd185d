/**
 * A route is data: what it is called, who may call it, what it takes and what it answers. The dispatcher serves from it, the
 * OpenAPI document and the table in the docs are made from it.
 */
import { z } from "zod";
import { Fault } from "../contract/fault.ts";
import type { Store } from "../store/store.ts";
import type { Authentication, Callers } from "./authentication.ts";
import type { Chronicle } from "./chronicle.ts";
import type { Clock } from "./clock.ts";
import type { Ids } from "./ids.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { readQuery } from "./query.ts";
import { parseWith } from "./schema-failure.ts";

/** What handlers work with. */
export interface Rooms {
  store: Store;
  lifecycle: Lifecycle;
  chronicle: Chronicle;
  clock: Clock;
  ids: Ids;
  isReady(): boolean;
}

export interface Answer {
  status: number;
  /** Sent as JSON; absent for none. */
  body?: unknown;
  headers?: Record<string, string>;
}

export interface RouteFacts {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With parameters as `{name}`. */
  path: string;
  auth: Authentication;
  /** One line for the docs. */
  summary: string;
  /** A later generation of the same operation exists. */
  deprecated?: boolean;
  query?: z.ZodObject;
  body?: { schema: z.ZodType; required: boolean };
  success: readonly { status: number; description: string; schema?: z.ZodType; headers?: Record<string, string> }[];
  /** Statuses of errors that are particular to this route; 400, 401, 404, 413 and 500 go without saying where they apply. */
  errors?: readonly number[];
}

export interface Route extends RouteFacts {
  readonly supported: true;
  /** Parses, then acts. */
  run(request: UnparsedCall, rooms: Rooms): Promise<Answer>;
}

export interface UnparsedCall {
  params: Readonly<Record<string, string>>;
  search: URLSearchParams;
  headers: Headers;
  /** Undefined when there was none. */
  json: unknown;
  caller: Callers[Authentication];
}

interface Call<A extends Authentication, Q extends z.ZodObject, B extends z.ZodType> {
  params: Readonly<Record<string, string>>;
  query: z.output<Q>;
  body: z.output<B>;
  headers: Headers;
  caller: Callers[A];
}

interface RouteDefinition<A extends Authentication, Q extends z.ZodObject, B extends z.ZodType> extends RouteFacts {
  auth: A;
  query?: Q;
  body?: { schema: B; required: boolean };
  handle(call: Call<A, Q, B>, rooms: Rooms): Promise<Answer>;
}

const noQuery = z.object({});

export function route<
  A extends Authentication,
  Q extends z.ZodObject = typeof noQuery,
  B extends z.ZodType = z.ZodUndefined,
>(definition: RouteDefinition<A, Q, B>): Route {
  const { handle, ...facts } = definition;
  return {
    ...facts,
    supported: true,
    async run({ params, search, headers, json, caller }, rooms) {
      const query = readQuery((definition.query ?? noQuery) as Q, search);
      const body = parseBody(definition.body, json) as z.output<B>;
      return handle({ params, query, body, headers, caller: caller as Callers[A] }, rooms);
    },
  };
}

/** An optional body that is absent counts as an empty object, so that its defaults apply. */
function parseBody(body: RouteFacts["body"], json: unknown): unknown {
  if (body === undefined) return undefined;
  if (json === undefined && body.required) throw new Fault(400, "the request has no body; send a JSON object");
  return parseWith(body.schema, json === undefined ? {} : json, "the body");
}
