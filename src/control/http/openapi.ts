/** Writes the route table as an OpenAPI 3.1 document, for readers and client generators. */
import { z } from "zod";
import { errorBody } from "../../contract/management/error-body.ts";
import type { RouteFacts } from "./route.ts";

type Json = Record<string, unknown>;

const SECURITY: Record<RouteFacts["auth"], Json[]> = {
  key: [{ ApiKeyAuth: [] }, { AccessTokenAuth: [], TeamAuth: [] }, { AdminTokenAuth: [], TeamAuth: [] }],
  bearer: [{ AccessTokenAuth: [] }],
  login: [{ AccessTokenAuth: [] }],
  member: [
    { AccessTokenAuth: [], TeamAuth: [] },
    { AdminTokenAuth: [], TeamAuth: [] },
  ],
  admin: [{ AdminTokenAuth: [] }],
  volume: [{ VolumeTokenAuth: [] }],
  none: [],
};

export function openApiDocument(routes: readonly RouteFacts[]): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Sandlot management API", version: "1" },
    paths,
    components: {
      schemas: { Error: schemaOf(errorBody, "output") },
      securitySchemes: {
        ApiKeyAuth: { type: "apiKey", in: "header", name: "X-API-Key" },
        AccessTokenAuth: { type: "http", scheme: "bearer" },
        VolumeTokenAuth: { type: "http", scheme: "bearer" },
        AdminTokenAuth: { type: "apiKey", in: "header", name: "X-Admin-Token" },
        TeamAuth: { type: "apiKey", in: "header", name: "X-Team-ID" },
      },
    },
  };
}

function operation(route: RouteFacts): Json {
  const content = (schema: Json) => ({ "application/json": { schema } });
  const responses: Record<string, Json> = {};
  for (const { status, description, schema, headers } of route.success) {
    const described = Object.entries(headers ?? {}).map(([name, text]) => [
      name,
      { description: text, schema: { type: "string" } },
    ]);
    responses[status] = {
      description,
      ...(schema && { content: content(schemaOf(schema, "output")) }),
      ...(described.length > 0 && { headers: Object.fromEntries(described) }),
    };
  }
  for (const status of errorStatuses(route)) {
    responses[status] = { description: "Refused", content: content({ $ref: "#/components/schemas/Error" }) };
  }
  return {
    operationId: operationId(route),
    summary: route.summary,
    ...(route.deprecated && { deprecated: true }),
    security: SECURITY[route.auth],
    parameters: [...pathParameters(route.path), ...queryParameters(route.query), ...headerParameters(route.headers)],
    ...(route.body && {
      requestBody: { required: route.body.required, content: content(schemaOf(route.body.schema, "input")) },
    }),
    ...(route.upload && {
      requestBody: { required: true, content: { [route.upload]: { schema: { type: "string", format: "binary" } } } },
    }),
    responses,
  };
}

function errorStatuses(route: RouteFacts): number[] {
  const statuses = new Set([...(route.errors ?? []), 429, 500]);
  if (route.auth !== "none") statuses.add(401).add(503);
  if (route.body) statuses.add(400).add(408).add(413).add(415);
  if (route.query) statuses.add(400);
  if (route.path.includes("{")) statuses.add(400).add(404);
  return [...statuses].sort();
}

/** `POST /v2/sandboxes/{sandboxID}/connect` becomes `postV2SandboxesSandboxIDConnect`. */
function operationId({ method, path }: RouteFacts): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
}

function pathParameters(path: string): Json[] {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  return names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } }));
}

function queryParameters(query: z.ZodObject | undefined): Json[] {
  if (query === undefined) return [];
  const { properties = {}, required = [] } = z.toJSONSchema(query, { io: "input" });
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: "query",
    required: required.includes(name),
    // Arrays are comma-separated.
    style: "form",
    explode: false,
    schema,
  }));
}

function headerParameters(headers: RouteFacts["headers"] = {}): Json[] {
  return Object.entries(headers).map(([name, description]) => ({
    name,
    in: "header",
    required: false,
    description,
    schema: { type: "string" },
  }));
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
