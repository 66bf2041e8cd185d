/** Follows a body to its end, byte by byte where it counts, and keeps nothing of it. */
import { type Framing, fieldOf } from "./head-fields.ts";

const CR = 13;
const LF = 10;
const SEMICOLON = 59;
/** More digits than any chunk needs that was ever sent; exact as a number. */
const SIZE_DIGITS_MAX = 12;
const LINE_MAX_BYTES = 4096;
const TRAILERS_MAX_BYTES = 16 * 1024;
/** They would come too late to be judged. */
const NO_TRAILER: ReadonlySet<string> = new Set([
  "host",
  "content-length",
  "transfer-encoding",
  "connection",
  "upgrade",
]);

type ChunkPart = "size" | "extension" | "size end" | "data" | "data end" | "data end LF" | "trailer" | "trailer LF";

export class Body {
  #left: number;
  #part: ChunkPart = "size";
  #digits = 0;
  #line = "";
  #trailersBytes = 0;
  isDone: boolean;
  isBroken = false;

  /** `strict`: nothing but what every server reads in the same way. */
  constructor(
    readonly framing: Framing,
    readonly strict: boolean,
  ) {
    this.#left = framing.kind === "length" ? framing.bytes : 0;
    this.isDone = framing.kind === "length" && framing.bytes === 0;
  }

  /** How many of these bytes belong to it. */
  take(bytes: Buffer): number {
    if (this.isDone || this.isBroken) return 0;
    if (this.framing.kind === "close") return bytes.length;
    if (this.framing.kind === "length") {
      const taken = Math.min(this.#left, bytes.length);
      this.#left -= taken;
      this.isDone = this.#left === 0;
      return taken;
    }
    let at = 0;
    while (at < bytes.length && !this.isDone && !this.isBroken) {
      if (this.#part === "data") {
        const taken = Math.min(this.#left, bytes.length - at);
        this.#left -= taken;
        at += taken;
        if (this.#left === 0) this.#part = "data end";
      } else {
        this.#step(bytes[at] as number);
        at += 1;
      }
    }
    return at;
  }

  #step(byte: number): void {
    switch (this.#part) {
      case "size":
        return void this.#size(byte);
      case "extension":
        if (byte === CR) this.#part = "size end";
        else if (byte === LF || ++this.#digits > LINE_MAX_BYTES) this.isBroken = true;
        return;
      case "size end":
        return void this.#expect(byte, LF, this.#left === 0 ? "trailer" : "data");
      case "data end":
        return void this.#expect(byte, CR, "data end LF");
      case "data end LF":
        this.#digits = 0;
        return void this.#expect(byte, LF, "size");
      case "trailer":
        return void this.#trailer(byte);
      default:
        return void this.#trailerEnd(byte);
    }
  }

  #size(byte: number): void {
    const digit = hexDigit(byte);
    if (digit !== undefined) {
      this.#left = this.#left * 16 + digit;
      if (++this.#digits > SIZE_DIGITS_MAX) this.isBroken = true;
    } else if (this.#digits === 0) this.isBroken = true;
    else if (byte === CR) this.#part = "size end";
    else if (!this.strict && (byte === SEMICOLON || byte === 32 || byte === 9)) this.#part = "extension";
    else this.isBroken = true;
  }

  #trailer(byte: number): void {
    this.#trailersBytes += 1;
    if (byte === CR) this.#part = "trailer LF";
    else if (byte === LF || byte === 0 || this.#trailersBytes > TRAILERS_MAX_BYTES) this.isBroken = true;
    else this.#line += String.fromCharCode(byte);
  }

  #trailerEnd(byte: number): void {
    if (byte !== LF) this.isBroken = true;
    else if (this.#line === "") this.isDone = true;
    else {
      const field = fieldOf(this.#line);
      if (this.strict && (field === undefined || NO_TRAILER.has(field.name))) this.isBroken = true;
      this.#line = "";
      this.#part = "trailer";
    }
  }

  #expect(byte: number, expected: number, next: ChunkPart): void {
    if (byte === expected) this.#part = next;
    else this.isBroken = true;
  }
}

function hexDigit(byte: number): number | undefined {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : undefined;
}
