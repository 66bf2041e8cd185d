/** Decodes a program's bytes and splits the text for delivery. */

/** Text without a line end is delivered after this time, so that progress dots are visible. */
const LINE_REST_MS = 100;
/** Longer lines are split. */
export const LINE_MAX_CHARS = 1024 * 1024;

export interface TextPieces {
  take(bytes: Uint8Array): void;
  /** Delivers everything, complete or not. */
  flush(): void;
}

/** Delivers text as it comes, but never splits a character. Invalid UTF-8 becomes U+FFFD. */
export function chunkPieces(tell: (text: string) => void): TextPieces {
  let decoder = new TextDecoder();
  return {
    take: (bytes) => tellSome(decoder.decode(bytes, { stream: true }), tell),
    flush: () => {
      tellSome(decoder.decode(), tell);
      decoder = new TextDecoder();
    },
  };
}

/** Delivers line by line; text without a line end follows after a short time. */
export function linePieces(tell: (text: string) => void): TextPieces {
  let line = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tellRest = () => {
    clearTimeout(timer);
    timer = undefined;
    tellSome(line, tell);
    line = "";
  };
  const chunks = chunkPieces((text) => {
    let start = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
      tell(line + text.slice(start, end + 1));
      line = "";
      start = end + 1;
    }
    line += text.slice(start);
    if (line.length > LINE_MAX_CHARS) tellRest();
    clearTimeout(timer);
    timer = line === "" ? undefined : setTimeout(tellRest, LINE_REST_MS);
  });
  return {
    take: chunks.take,
    flush: () => {
      chunks.flush();
      tellRest();
    },
  };
}

function tellSome(text: string, tell: (text: string) => void): void {
  if (text !== "") tell(text);
}
