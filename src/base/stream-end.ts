/** Calls a function when a stream has ended, failed or been cancelled, so that its resources are released. */

/** A stream with the same bytes, and one call of `onEnd`. */
export function onStreamEnd(content: ReadableStream<Uint8Array>, onEnd: () => void): ReadableStream<Uint8Array> {
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
