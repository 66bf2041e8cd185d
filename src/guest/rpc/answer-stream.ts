/** The body of an answer that is made piece by piece. */

/** The next piece, at once if there is one. Undefined is the end. */
type NextPiece = () => Uint8Array | undefined | Promise<Uint8Array | undefined>;

/** Each piece is made only when the socket asks for it, so a slow client is felt at the source. */
export function answerStream(next: NextPiece, onCancel: (reason: unknown) => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const piece = next();
        if (piece instanceof Promise) return piece.then((late) => pass(late, controller));
        return pass(piece, controller);
      },
      cancel: onCancel,
    },
    { highWaterMark: 0 },
  );
}

function pass(piece: Uint8Array | undefined, controller: ReadableStreamDefaultController<Uint8Array>): void {
  if (piece === undefined) controller.close();
  else controller.enqueue(piece);
}
