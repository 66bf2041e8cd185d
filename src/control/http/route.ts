/**
 * A route is data: method, path, authentication, input and responses. The dispatcher serves from it; the OpenAPI
 * document and the table in the docs are generated from it.
 */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import type { Authentication, Callers } from "../access/authentication.ts";
import type { Origin } from "../audit/audit.ts";
import { readQuery } from "./query.ts";
import { BODY, parseWith } from "./validation.ts";

export interface RouteResult {
  status: number;
  /** Sent as JSON; absent: no body. */
  body?: unknown;
  /** Instead of `body`: a stream of bytes. */
  stream?: ReadableStream<Uint8Array>;
  headers?: Record<string, string>;
}

export interface RouteFacts {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path, with parameters as `{name}`. */
  path: string;
  auth: Authentication;
  /** One line for the docs. */
  summary: string;
  /** A newer version of the same operation exists. */
  deprecated?: boolean;
  query?: z.ZodObject;
  /** Optional headers of the request that are particular to this route, with their meaning. */
  headers?: Record<string, string>;
  body?: { schema: z.ZodType; required: boolean; maxBytes?: number };
  /** Instead of `body`: bytes of this media type, which the handler reads as a stream. */
  upload?: string;
  success: readonly { status: number; description: string; schema?: z.ZodType; headers?: Record<string, string> }[];
  /**
   * Statuses of errors that are particular to this route. 400, 401, 404, 408, 413, 415, 429 and 500 are implied where
   * they apply.
   */
  errors?: readonly number[];
  /** No cache may keep a response, not even an error. */
  noStore?: true;
}

/** `S`: the services of its handler. */
export interface Route<S> extends RouteFacts {
  /** Parses, then acts. */
  run(request: UnparsedCall, services: S): Promise<RouteResult>;
  /** Called for every rejected call of a known caller, before the response is sent. */
  refused?(call: RefusedCall, services: S): Promise<void>;
}

interface RefusedCall {
  params: Readonly<Record<string, string>>;
  caller: Callers[Authentication];
  fault: Fault;
}

interface UnparsedCall {
  params: Readonly<Record<string, string>>;
  search: URLSearchParams;
  headers: Headers;
  /** Undefined without a body. */
  json: unknown;
  caller: Callers[Authentication];
  origin: Origin | undefined;
  upload: Upload;
  base: string;
}

/** The body of a request as a stream, for routes that take bytes. */
export interface Upload {
  content: ReadableStream<Uint8Array> | null;
  /** Size of the body by Content-Length, if present. */
  bytes: number | undefined;
}

/** The values of the `{name}`s in a path. */
type Params<P extends string> = Readonly<Record<NamesIn<P>, string>>;
type NamesIn<P extends string> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;

interface Call<P extends string, A extends Authentication, Q extends z.ZodObject, B extends z.ZodType> {
  params: Params<P>;
  query: z.output<Q>;
  body: z.output<B>;
  headers: Headers;
  caller: Callers[A];
  /** For changes that record themselves in the audit log. */
  origin: Origin | undefined;
  upload: Upload;
  /** The address at which the client reached this interface: `http://host:port`, with the prefix of a trusted proxy. */
  base: string;
}

interface RouteDefinition<S, P extends string, A extends Authentication, Q extends z.ZodObject, B extends z.ZodType>
  extends Omit<RouteFacts, "method" | "path"> {
  auth: A;
  query?: Q;
  body?: { schema: B; required: boolean; maxBytes?: number };
  /** Without a status in the result, the first declared one is sent. Undefined: no body either. */
  handle(call: Call<P, A, Q, B>, services: S): Promise<Partial<RouteResult> | undefined>;
  refused?(call: Pick<Call<P, A, Q, B>, "params" | "caller"> & { fault: Fault }, services: S): Promise<void>;
}

const noQuery = z.object({});

/** Declares routes whose handlers get these services, by name: `GET /path/{parameter}`. */
export function routesWith<S>() {
  return <
    P extends string,
    A extends Authentication,
    Q extends z.ZodObject = typeof noQuery,
    B extends z.ZodType = z.ZodUndefined,
  >(
    name: `${RouteFacts["method"]} ${P}`,
    { handle, refused, ...facts }: RouteDefinition<S, P, A, Q, B>,
  ): Route<S> => {
    const [method, path] = name.split(" ") as [RouteFacts["method"], P];
    type Parsed = Call<P, A, Q, B>;
    return {
      ...facts,
      method,
      path,
      ...(refused && { refused: (call, services) => refused(call as Parsed & typeof call, services) }),
      async run({ search, json, ...call }, services) {
        const query = readQuery(facts.query ?? noQuery, search);
        const body = parseBody(facts.body, json);
        const result = await handle({ ...call, query, body } as Parsed, services);
        return { status: facts.success[0]?.status ?? 200, ...result };
      },
    };
  };
}

/** A missing optional body counts as an empty object, so that its defaults apply. */
function parseBody(body: RouteFacts["body"], json: unknown): unknown {
  if (body === undefined) return undefined;
  if (json === undefined && body.required) throw new Fault(400, "the request has no body; send a JSON object");
  return parseWith(body.schema, json === undefined ? {} : json, BODY);
}
