/** Reads the messages between processes, one per line. */

/** The lines of a stream. Throws on a line longer than `maxBytes`. */
export async function* boundedLines(stream: ReadableStream<Uint8Array>, maxBytes: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = "";
  const requireShort = () => {
    if (text.length > maxBytes) throw new Error(`a line is longer than ${maxBytes} bytes`);
  };
  for await (const chunk of stream) {
    const [rest = "", ...begun] = decoder.decode(chunk, { stream: true }).split("\n");
    text += rest;
    for (const next of begun) {
      requireShort();
      yield text;
      text = next;
    }
    requireShort();
  }
}
