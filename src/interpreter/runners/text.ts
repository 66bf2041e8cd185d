/** Bytes of a program as text, in the pieces in which it is told. */

/** Text without a line end is told after this time, so that somebody sees the dots of a progress bar. */
const LINE_REST_MS = 100;
/** A line that is longer is told in parts. */
export const LINE_MAX_CHARS = 1024 * 1024;

export interface TextPieces {
  take(bytes: Uint8Array): void;
  /** All that is there, whether it is whole or not. */
  flush(): void;
}

/** As it comes; only characters stay in one piece. What is no UTF-8 becomes U+FFFD. */
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

/** Line by line. What has no line end yet is told after a moment. */
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
