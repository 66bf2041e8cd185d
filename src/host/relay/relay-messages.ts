/** What the server and the process of the relay say to each other: one JSON object a line, answered in any order. */
import type { EgressPolicy } from "../host.ts";
import type { Ports } from "./program/connection-relay.ts";

export type RelayRequest = { id: number } & (
  | { do: "set"; source: string; policy: EgressPolicy | null }
  | { do: "close-ranges"; ranges: readonly string[] }
);

/** What the process is started with, as its first line. Zero: any port that is free. */
export interface RelayStart {
  address: string;
  ports: Ports;
  connectionsMax: number;
}

export type RelayAnswer = { ready: Ports } | { done: number };

/** The lines of a stream. One that is longer than this ends it. */
export async function* boundedLines(stream: ReadableStream<Uint8Array>, maxBytes: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    const pieces = (text + decoder.decode(chunk, { stream: true })).split("\n");
    text = pieces.pop() ?? "";
    yield* pieces;
    if (text.length > maxBytes) throw new Error(`a line is longer than ${maxBytes} bytes`);
  }
}
