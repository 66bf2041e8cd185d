/** The address of a server in a program that a test has started, from what it prints. */

/** Waits for the banner. Fails with all that the server has printed if it ends before. */
export async function addressOf(server: Bun.Subprocess<"ignore", "pipe", "pipe">): Promise<string> {
  let output = "";
  const ready = Promise.withResolvers<string>();
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      output += decoder.decode(chunk, { stream: true });
      const url = /Sandlot is ready at (\S+).*E2B_API_KEY=[^\n]*\n/s.exec(output)?.[1];
      if (url !== undefined) ready.resolve(url);
    }
  };
  void Promise.all([collect(server.stdout), collect(server.stderr)]).then(() =>
    ready.reject(new Error(`the server ended before it was ready:\n${output}`)),
  );
  return await ready.promise;
}
