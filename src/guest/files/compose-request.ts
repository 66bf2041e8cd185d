/** Parses and validates the body of POST /files/compose, without looking at the files. */
import { Fault } from "../../contract/fault.ts";

export const COMPOSE_BODY_MAX_BYTES = 4 * 1024 * 1024;
export const COMPOSE_SOURCES_MAX = 10_000;

interface ComposeRequest {
  sources: string[];
  destination: string;
  /** Undefined if the body names no user. */
  username: string | undefined;
}

export async function readComposeRequest(request: Request): Promise<ComposeRequest> {
  const text = await readText(request);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (thrown) {
    throw new Fault(400, "the body is not JSON; send source_paths, destination and, if need be, username", {
      cause: thrown,
    });
  }
  return parseComposeRequest(json);
}

function parseComposeRequest(json: unknown): ComposeRequest {
  if (typeof json !== "object" || json === null || Array.isArray(json)) {
    throw new Fault(400, "the body must be a JSON object with source_paths and destination");
  }
  const { source_paths: sources, destination, username } = json as Record<string, unknown>;
  if (typeof destination !== "string" || destination === "") {
    throw new Fault(400, "destination must be the path of the file to make");
  }
  if (username !== undefined && username !== null && typeof username !== "string") {
    throw new Fault(400, "username must be a string");
  }
  return { sources: parseSources(sources), destination, username: username || undefined };
}

function parseSources(sources: unknown): string[] {
  if (!Array.isArray(sources) || sources.length === 0) {
    throw new Fault(400, "source_paths must be a list with at least one path");
  }
  if (sources.length > COMPOSE_SOURCES_MAX) {
    throw new Fault(400, `source_paths has ${sources.length} paths; at most ${COMPOSE_SOURCES_MAX} are joined at once`);
  }
  return sources.map((source: unknown, at) => {
    if (typeof source !== "string" || source === "") throw new Fault(400, `source_paths[${at}] must be a path`);
    return source;
  });
}

/** Counts bytes as they arrive: Content-Length may be missing or wrong. */
async function readText(request: Request): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > COMPOSE_BODY_MAX_BYTES) {
      throw new Fault(413, `the body has more than ${COMPOSE_BODY_MAX_BYTES} bytes; join in several steps`);
    }
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (thrown) {
    throw new Fault(400, "the body is not UTF-8", { cause: thrown });
  }
}
