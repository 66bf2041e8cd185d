/** Input from a terminal that the terminal does not show, for passwords and secrets. */
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { Fault } from "../../contract/fault.ts";

/** Prints the question and nothing of what is typed. */
export async function askHidden(question: string): Promise<string> {
  process.stdout.write(question);
  const mute = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: mute, terminal: true });
  const aborted = new AbortController();
  terminal.on("SIGINT", () => aborted.abort());
  try {
    return await terminal.question("", { signal: aborted.signal });
  } catch (cause) {
    throw new Fault(400, "interrupted; nothing was changed", { cause });
  } finally {
    terminal.close();
    process.stdout.write("\n");
  }
}
