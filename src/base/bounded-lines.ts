/** Reads the messages between processes, one per line. */

/** The lines of a stream. Throws on a line longer than `maxBytes`. */
export async function* boundedLines(stream: ReadableStream<Uint8Array>, maxBytes: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    const pieces = (text + decoder.decode(chunk, { stream: true })).split("\n");
    text = pieces.pop() ?? "";
    yield* pieces;
    if (text.length > maxBytes) throw new Error(`a line is longer than ${maxBytes} bytes`);
  }
}
