/** What processes tell each other, line by line. */

/** The lines of a stream. One that is longer than this ends it. */
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
