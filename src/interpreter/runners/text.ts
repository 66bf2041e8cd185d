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
export function chunkPieces(onText: (text: string) => void): TextPieces {
  let decoder = new TextDecoder();
  return {
    take: (bytes) => emitPieces(decoder.decode(bytes, { stream: true }), onText),
    flush: () => {
      emitPieces(decoder.decode(), onText);
      decoder = new TextDecoder();
    },
  };
}

/** Delivers line by line; text without a line end follows after a short time. */
export function linePieces(onText: (text: string) => void): TextPieces {
  let line = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  const emitRest = () => {
    clearTimeout(timer);
    timer = undefined;
    emitPieces(line, onText);
    line = "";
  };
  const chunks = chunkPieces((text) => {
    let start = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
      onText(line + text.slice(start, end + 1));
      line = "";
      start = end + 1;
    }
    line += text.slice(start);
    if (line.length > LINE_MAX_CHARS) emitRest();
    clearTimeout(timer);
    timer = line === "" ? undefined : setTimeout(emitRest, LINE_REST_MS);
  });
  return {
    take: chunks.take,
    flush: () => {
      chunks.flush();
      emitRest();
    },
  };
}

function emitPieces(text: string, onText: (text: string) => void): void {
  if (text !== "") onText(text);
}
