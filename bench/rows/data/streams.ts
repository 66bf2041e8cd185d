/** Many concurrent streams, held for a while: none may break, and no process may leak memory. */
import { EnvelopeCounter, startStream } from "../../clients/start-stream.ts";
import { growth } from "../../figures/memory-growth.ts";
import { residentBytes } from "../../figures/resident-memory.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

const STREAMS = 200;
const TOLD_EVERY_SECONDS = 2;
/** A stream that is silent for this long counts as broken. */
const SILENT_MS = 3 * TOLD_EVERY_SECONDS * 1000;
const SAMPLE_MS = 250;
/** One half prints lines, the other is silent and gets keepalives only. */
const TALKING = ["/bin/sh", "-c", `while echo line; do sleep ${TOLD_EVERY_SECONDS}; done`];
const SILENT = ["/bin/sleep", "infinity"];

export const streams: Row = {
  name: "streams",
  what: "200 concurrent Start streams for 10 s (60 s with --long): none breaks, memory stays flat",
  async run(context) {
    await using sandbox = await BenchSandbox.make(context);
    const hangUp = new AbortController();
    try {
      const held = await Promise.all(
        Array.from({ length: STREAMS }, (_, index) => HeldStream.open(sandbox, index % 2 === 0, hangUp.signal)),
      );
      const memory = { server: [] as number[], guest: [] as number[] };
      const endMs = performance.now() + (context.long ? 60_000 : 10_000);
      while (performance.now() < endMs) {
        for (const name of ["server", "guest"] as const) memory[name].push(residentBytes(sandbox.pids[name]));
        await Bun.sleep(SAMPLE_MS);
      }
      const broken = held.filter((stream) => stream.broken).length;
      const grown = (["server", "guest"] as const).map((name) => growth(name, memory[name]));
      return {
        notes: [`${held.reduce((sum, { messages }) => sum + messages, 0)} messages`, ...grown.map(({ text }) => text)],
        broken: [
          ...(broken > 0 ? [`${broken} of ${STREAMS} streams broke or fell silent`] : []),
          ...grown.filter(({ tooMuch }) => tooMuch).map(({ text }) => text),
        ],
      };
    } finally {
      hangUp.abort();
    }
  },
};

class HeldStream {
  readonly #counter = new EnvelopeCounter();
  #heardMs = performance.now();
  #ended = false;

  static async open(sandbox: BenchSandbox, talks: boolean, signal: AbortSignal): Promise<HeldStream> {
    const argv = talks ? TALKING : SILENT;
    const stream = await startStream(sandbox, argv, { keepaliveSeconds: TOLD_EVERY_SECONDS, signal });
    const held = new HeldStream();
    void held.#listen(stream);
    return held;
  }

  get messages(): number {
    return this.#counter.messages;
  }

  get broken(): boolean {
    return this.#ended || performance.now() - this.#heardMs > SILENT_MS;
  }

  async #listen(stream: ReadableStream<Uint8Array>): Promise<void> {
    try {
      for await (const chunk of stream) {
        this.#counter.take(chunk);
        this.#heardMs = performance.now();
      }
    } catch {
      // Either the benchmark closed it at the end, or it broke: the time decides.
    }
    this.#ended = true;
  }
}
