/**
 * Bodies that fetch takes or gives. They stream as they come; only a short body of announced length that has arrived in
 * one piece is passed on as that piece, which spares a stream for most requests and lets Bun keep its Content-Length.
 */
import { EDGE_WHOLE_BODY_MAX_BYTES } from "./limits.ts";
import { releasePiece } from "./release-piece.ts";

/** Either bytes or a source of streams, so that it can be offered again as long as nobody has begun to read it. */
export type CarriedBody = Uint8Array<ArrayBuffer> | (() => ReadableStream<Uint8Array>);

/** `announced` is the Content-Length header, if any; `over` is told when a stream of it has ended, in whichever way. */
export async function carried(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  announced: string | null,
  over: () => void = () => undefined,
): Promise<CarriedBody> {
  const reader = body.getReader();
  const length = announced === null ? Number.NaN : Number(announced);
  if (!(length <= EDGE_WHOLE_BODY_MAX_BYTES)) return streams(reader, undefined, over);
  // Costs no time: Bun sends a response's head with the first piece of its body, and a request's piece is mostly here.
  const first = await reader.read();
  if (first.done) return new Uint8Array();
  return first.value.length === length ? first.value : streams(reader, first.value, over);
}

/**
 * The rest of a body, after `first`. A wrapped stream rather than the body itself: fetch swallows what has already
 * arrived of a request's own body even if it is then refused a connection; and Bun.serve prints each break of a
 * response's own body to stderr with the URL, signature and all, which any sandbox could cause at will.
 */
function streams(
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>,
  first: Uint8Array<ArrayBuffer> | undefined,
  over: () => void,
) {
  let begun = false;
  let passedOn: Uint8Array<ArrayBuffer> | undefined;
  let unsent = first;
  const source: UnderlyingDefaultSource<Uint8Array> = {
    async pull(controller) {
      begun = true;
      // Whoever asks for the next piece has taken the last.
      releasePiece(passedOn);
      passedOn = undefined;
      if (unsent !== undefined) {
        controller.enqueue(unsent);
        unsent = undefined;
        return;
      }
      const piece = await reader.read().catch(() => undefined);
      // Without a reason: Bun.serve prints one to stderr, stack and all, and any sandbox can cause it at will.
      if (piece === undefined || piece.done) over();
      if (piece === undefined) controller.error();
      else if (piece.done) controller.close();
      else {
        passedOn = piece.value;
        controller.enqueue(piece.value);
      }
    },
    async cancel(reason) {
      over();
      if (begun) await reader.cancel(reason);
    },
  };
  return () => new ReadableStream(source, { highWaterMark: 0 });
}
