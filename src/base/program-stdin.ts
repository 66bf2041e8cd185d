/** Writes to the standard input of another program. */

/**
 * Rejects when the program has ended or closed its stdin. Calls may overlap: their bytes arrive in the order of the
 * calls. Bun rejects the promise of `write` as well as that of `flush`, and a rejection without a handler ends the
 * server.
 */
export async function writeToStdin(stdin: Bun.FileSink, bytes: string | Uint8Array): Promise<void> {
  const written = stdin.write(bytes);
  await Promise.all([written, stdin.flush()]);
}
