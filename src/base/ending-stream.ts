/** Streams that tell when they end, so that what they use is released. */

/** Passes the bytes on and calls `onEnd` when the stream ends in any way. */
export function withEnd(content: ReadableStream<Uint8Array>, onEnd: () => void): ReadableStream<Uint8Array> {
  const reader = content.getReader();
  const source: UnderlyingDefaultSource<Uint8Array> = {
    async pull(controller) {
      const piece = await reader.read().catch(() => undefined);
      if (piece !== undefined && !piece.done) return controller.enqueue(piece.value);
      onEnd();
      // Without a reason: Bun.serve prints the reason, and any sandbox could cause that at will.
      if (piece === undefined) controller.error();
      else controller.close();
    },
    async cancel(reason) {
      onEnd();
      await reader.cancel(reason);
    },
  };
  return new ReadableStream(source, { highWaterMark: 0 });
}
