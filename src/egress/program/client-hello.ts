/**
 * Reads the server name and the offered protocols from a TLS client hello, which may arrive in any pieces and over
 * several records. All bytes are kept, because the server gets them unchanged. A hello that two servers could read
 * differently is rejected.
 */
import { RELAY_HELLO_MAX_BYTES } from "./bounds.ts";

/** Undefined: there has to be more. */
type Parsed = { value: HelloFacts } | { refused: string } | undefined;

export interface HelloFacts {
  name: string;
  /** The application protocols that the client offers (ALPN). Empty: none; undefined: the list is malformed. */
  protocols: readonly string[] | undefined;
}

const RECORD_HEADER_BYTES = 5;
const RECORD_MAX_BYTES = 16 * 1024;
const HANDSHAKE = 22;
const TLS_MAJOR = 3;
const MESSAGE_HEADER_BYTES = 4;
const CLIENT_HELLO = 1;
const RANDOM_BYTES = 32;
const SESSION_MAX_BYTES = 32;
const SERVER_NAME = 0;
const HOST_NAME = 0;
const PROTOCOLS = 16;

/** The alert `access_denied` as a record. */
export const ALERT_DENIED = Buffer.from([21, 3, 3, 0, 2, 2, 49]);
/** The alert `no_application_protocol`. */
export const ALERT_PROTOCOL = Buffer.from([21, 3, 3, 0, 2, 2, 120]);
/** The alert `internal_error`. */
export const ALERT_INTERNAL = Buffer.from([21, 3, 3, 0, 2, 2, 80]);

export class ClientHelloReader {
  #bytes = Buffer.allocUnsafe(2048);
  #length = 0;
  /** Offset of the next record. */
  #next = 0;
  /** The payload of the records so far. It is one buffer, because each byte may come in a record of its own. */
  #message = Buffer.alloc(0);
  #messageLength = 0;

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  add(piece: Buffer): Parsed {
    this.#keep(piece);
    while (this.#length - this.#next >= RECORD_HEADER_BYTES) {
      const at = this.#next;
      if (this.#bytes[at] !== HANDSHAKE || this.#bytes[at + 1] !== TLS_MAJOR) return refused("it is no TLS");
      const length = this.#bytes.readUInt16BE(at + 3);
      if (length === 0 || length > RECORD_MAX_BYTES) return refused(`a record has ${length} bytes`);
      const end = at + RECORD_HEADER_BYTES + length;
      if (end > RELAY_HELLO_MAX_BYTES) return refused(`the hello is longer than ${RELAY_HELLO_MAX_BYTES} bytes`);
      if (end > this.#length) return undefined;
      this.#message = appended(this.#message, this.#messageLength, this.#bytes.subarray(at + RECORD_HEADER_BYTES, end));
      this.#messageLength += length;
      this.#next = end;
      const found = this.#readMessage();
      if (found !== undefined) return found;
    }
    return this.#length > 0 && this.#bytes[0] !== HANDSHAKE ? refused("it is no TLS") : undefined;
  }

  #keep(piece: Buffer): void {
    this.#bytes = appended(this.#bytes, this.#length, piece);
    this.#length += piece.length;
  }

  #readMessage(): Parsed {
    if (this.#messageLength < MESSAGE_HEADER_BYTES) return undefined;
    if (this.#message[0] !== CLIENT_HELLO) return refused("it does not begin with a hello");
    const end = MESSAGE_HEADER_BYTES + this.#message.readUIntBE(1, 3);
    if (end > RELAY_HELLO_MAX_BYTES) return refused(`the hello is longer than ${RELAY_HELLO_MAX_BYTES} bytes`);
    if (this.#messageLength < end) return undefined;
    if (this.#messageLength > end) return refused("something follows the hello in its record");
    return factsOf(this.#message.subarray(MESSAGE_HEADER_BYTES, end));
  }
}

/** Appends bytes behind the first `length` bytes of the buffer, and moves to a larger buffer if they do not fit. */
function appended(buffer: Buffer<ArrayBuffer>, length: number, bytes: Buffer): Buffer<ArrayBuffer> {
  const needed = length + bytes.length;
  let roomy = buffer;
  if (needed > buffer.length) {
    roomy = Buffer.allocUnsafe(Math.max(needed, buffer.length * 2));
    buffer.copy(roomy, 0, 0, length);
  }
  bytes.copy(roomy, length);
  return roomy;
}

/** Reads the fields of a message; returns undefined or false past its end. */
class Fields {
  at = 0;

  constructor(readonly bytes: Buffer) {}

  get rest(): number {
    return this.bytes.length - this.at;
  }

  skip(length: number): boolean {
    if (length > this.rest) return false;
    this.at += length;
    return true;
  }

  number(size: 1 | 2): number | undefined {
    if (this.rest < size) return undefined;
    const value = this.bytes.readUIntBE(this.at, size);
    this.at += size;
    return value;
  }

  /** A field prefixed by its length. */
  vector(size: 1 | 2): Buffer | undefined {
    const length = this.number(size);
    if (length === undefined || length > this.rest) return undefined;
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
}

function factsOf(hello: Buffer): Parsed {
  const broken = refused("the hello is not well-formed");
  const fields = new Fields(hello);
  if (!fields.skip(2 + RANDOM_BYTES)) return broken;
  const session = fields.vector(1);
  const suites = fields.vector(2);
  const compression = fields.vector(1);
  if (session === undefined || session.length > SESSION_MAX_BYTES) return broken;
  if (suites === undefined || suites.length === 0 || suites.length % 2 !== 0) return broken;
  if (compression === undefined || compression.length === 0) return broken;
  if (fields.rest === 0) return refused("the hello names no server");
  const block = fields.vector(2);
  if (block === undefined || fields.rest > 0) return broken;

  const extensions = new Fields(block);
  const seen = new Set<number>();
  let names: Buffer | undefined;
  let protocols: readonly string[] | undefined = [];
  while (extensions.rest > 0) {
    const type = extensions.number(2);
    const content = extensions.vector(2);
    // Given duplicates, one server may take the first and another the last.
    if (type === undefined || content === undefined || seen.has(type)) return broken;
    seen.add(type);
    if (type === SERVER_NAME) names = content;
    if (type === PROTOCOLS) protocols = protocolsIn(content);
  }
  if (names === undefined) return refused("the hello names no server");
  const name = onlyName(names);
  return name === undefined ? refused("the hello does not name exactly one server") : { value: { name, protocols } };
}

function onlyName(extension: Buffer): string | undefined {
  const outer = new Fields(extension);
  const list = outer.vector(2);
  if (list === undefined || outer.rest > 0) return undefined;
  const entries = new Fields(list);
  const type = entries.number(1);
  const name = entries.vector(2);
  if (type !== HOST_NAME || name === undefined || name.length === 0 || entries.rest > 0) return undefined;
  return name.toString("latin1");
}

/** Undefined: the list is malformed (RFC 7301, 3.1). */
function protocolsIn(extension: Buffer): string[] | undefined {
  const outer = new Fields(extension);
  const list = outer.vector(2);
  if (list === undefined || list.length === 0 || outer.rest > 0) return undefined;
  const entries = new Fields(list);
  const protocols: string[] = [];
  while (entries.rest > 0) {
    const protocol = entries.vector(1);
    if (protocol === undefined || protocol.length === 0) return undefined;
    protocols.push(protocol.toString("latin1"));
  }
  return protocols;
}

function refused(why: string): { refused: string } {
  return { refused: why };
}
