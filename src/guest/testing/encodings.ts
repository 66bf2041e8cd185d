/**
 * Makes the same calls in either encoding of the Connect protocol, with JSON on the test's side: a suite written once
 * runs over both, and a difference between them is a failure.
 */
import { create, fromBinary, fromJson, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { Filesystem } from "../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { Process } from "../../contract/runtime/wire/process/process_pb.ts";
import { envelopeOf, frames, type RunningGuest, type StreamedEvent } from "./running-guest.ts";

export const ENCODINGS = ["json", "binary"] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** The part of a running guest that service tests use. */
export type Speaker = Pick<RunningGuest, "call" | "stream">;

export function speaking(guest: RunningGuest, encoding: Encoding): Speaker {
  return encoding === "json" ? guest : new BinarySpeaker(guest);
}

export function describeMethod(name: string) {
  const method = [...Process.methods, ...Filesystem.methods].find(
    (each) => `${each.parent.typeName}/${each.name}` === name,
  );
  if (method === undefined) throw new Error(`there is no method ${name}`);
  return method;
}

/** Encodes a JSON message as the payload of a request. */
export function encode(name: string, message: JsonValue, encoding: Encoding): Uint8Array<ArrayBuffer> {
  if (encoding === "json") return new Uint8Array(Buffer.from(JSON.stringify(message)));
  const { input } = describeMethod(name);
  return new Uint8Array(toBinary(input, fromJson(input, message)));
}

class BinarySpeaker implements Speaker {
  readonly #guest: RunningGuest;

  constructor(guest: RunningGuest) {
    this.#guest = guest;
  }

  async call(method: string, message: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const response = await this.#guest.fetch(`/${method}`, {
      method: "POST",
      headers: { "Content-Type": "application/proto", ...headers },
      body: encode(method, message as JsonValue, "binary"),
    });
    const type = response.headers.get("content-type");
    // Errors are JSON in both encodings.
    if (type !== "application/proto") return response;
    const json = decode(method, await response.bytes());
    return Response.json(json, { status: response.status, headers: response.headers });
  }

  async *stream(method: string, message: unknown, headers: Record<string, string> = {}): AsyncGenerator<StreamedEvent> {
    const gone = new AbortController();
    try {
      const response = await this.#guest.fetch(`/${method}`, {
        method: "POST",
        headers: { "Content-Type": "application/connect+proto", ...headers },
        body: envelopeOf(encode(method, message as JsonValue, "binary")),
        signal: gone.signal,
      });
      if (response.status !== 200 || response.body === null) throw new Error(`stream answered ${response.status}`);
      for await (const { flags, payload } of frames(response.body)) {
        const end = flags === 2;
        yield { end, json: (end ? JSON.parse(payload.toString()) : decode(method, payload)) as StreamedEvent["json"] };
      }
    } finally {
      gone.abort();
    }
  }
}

function decode(method: string, bytes: Uint8Array): JsonValue {
  const { output } = describeMethod(method);
  return toJson(output, bytes.length === 0 ? create(output) : fromBinary(output, bytes));
}
