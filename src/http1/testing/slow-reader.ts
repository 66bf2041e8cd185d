/** A simple HTTP/1.1 parser of one complete text, the model for the fuzz test. */
import { CHUNK_LINE_MAX_BYTES, CHUNK_TRAILERS_MAX } from "../body.ts";

export interface SlowMessage {
  first: string;
  headers: [name: string, value: string][];
  content: string;
  /** The body as received; `rest` is the text after it. */
  raw: string;
  /** The same without extensions and trailers. */
  plain: string;
  rest: string;
}

const FIRST = {
  request: /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32} [!-~\x80-\xff]+ HTTP\/1\.[01]$/,
  response: /^HTTP\/1\.[01] [1-9]\d{2}(?: [\t\x20-\x7e\x80-\xff]*)?$/,
};
const FIELD = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/;
const NEVER_TRAILERS = ["host", "content-length", "transfer-encoding", "connection", "upgrade"];

/** Undefined if the message is rejected or incomplete. */
export function slowMessage(text: string, kind: "request" | "response", maxBytes: number): SlowMessage | undefined {
  const [, head = "", behind = ""] =
    (kind === "request" ? /^(.*?\r\n)\r\n(.*)$/s : /^(.*?\n)\r?\n(.*)$/s).exec(text) ?? [];
  if (head === "" || text.length - behind.length > maxBytes) return undefined;
  const [first = "", ...lines] = head.split(kind === "request" ? "\r\n" : /\r?\n/).slice(0, -1);
  if (!FIRST[kind].test(first)) return undefined;
  const headers: SlowMessage["headers"] = [];
  for (const line of lines) {
    const [, name, value = ""] = FIELD.exec(line) ?? [];
    if (name === undefined) return undefined;
    headers.push([name.toLowerCase(), value]);
  }
  const valuesOf = (name: string) => headers.filter(([own]) => own === name).map(([, value]) => value);
  const isOld = first.endsWith("HTTP/1.0");
  if (kind === "request" && valuesOf("host").length !== 1 && !(isOld && valuesOf("host").length === 0))
    return undefined;
  const lengths = valuesOf("content-length");
  const codings = valuesOf("transfer-encoding");
  if (lengths.length + codings.length > 1) return undefined;
  if (codings[0] !== undefined) {
    if (codings[0].toLowerCase() !== "chunked" || isOld) return undefined;
    const body = slowChunks(behind);
    return body && { first, headers, ...body };
  }
  // Without a length, a response body is complete only when the connection ends.
  const length = lengths[0] ?? (kind === "request" ? "0" : "");
  if (!/^\d{1,15}$/.test(length) || behind.length < Number(length)) return undefined;
  const content = behind.slice(0, Number(length));
  return { first, headers, content, raw: content, plain: content, rest: behind.slice(content.length) };
}

/** Undefined if the chunks are malformed or incomplete. */
function slowChunks(text: string): Pick<SlowMessage, "content" | "raw" | "plain" | "rest"> | undefined {
  let content = "";
  let plain = "";
  for (let rest = text; ; ) {
    const [line, digits] = /^([0-9a-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n/i.exec(rest) ?? [];
    if (line === undefined || digits === undefined || line.length > CHUNK_LINE_MAX_BYTES) return undefined;
    const size = Number.parseInt(digits, 16);
    rest = rest.slice(line.length);
    plain += `${digits}\r\n${rest.slice(0, size)}\r\n`;
    if (size === 0) {
      const behind = slowTrailers(rest);
      return behind === undefined
        ? undefined
        : { content, raw: text.slice(0, text.length - behind.length), plain, rest: behind };
    }
    if (rest.slice(size, size + 2) !== "\r\n") return undefined;
    content += rest.slice(0, size);
    rest = rest.slice(size + 2);
  }
}

/** The text after the trailers and their empty line. */
function slowTrailers(text: string): string | undefined {
  const lines = text.split("\r\n");
  const count = lines.indexOf("");
  // The last line has no line end.
  if (count < 0 || count === lines.length - 1 || count > CHUNK_TRAILERS_MAX) return undefined;
  const trailers = lines.slice(0, count);
  const isField = (line: string) => {
    const [, name = ""] = FIELD.exec(line) ?? [];
    return name !== "" && line.length + 2 <= CHUNK_LINE_MAX_BYTES && !NEVER_TRAILERS.includes(name.toLowerCase());
  };
  return trailers.every(isField) ? lines.slice(count + 1).join("\r\n") : undefined;
}
