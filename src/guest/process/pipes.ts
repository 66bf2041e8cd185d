/**
 * A process on pipes. Output is read only as fast as its listeners take it, so a full pipe holds the process back;
 * input is handed over in slices that each wait until the pipe took them.
 */
import { INPUT_SLICE_MAX_BYTES } from "../../contract/limits.ts";
import { logError } from "../log.ts";
import { refuse } from "../rpc-fault.ts";
import type { Carrier, OutputSink } from "./carrier.ts";
import type { Command } from "./command.ts";

export function spawnOnPipes(command: Command, withStdin: boolean, sink: OutputSink): Carrier {
  const child = Bun.spawn(command.argv, {
    argv0: command.argv0,
    cwd: command.cwd,
    env: command.env,
    stdin: withStdin ? "pipe" : "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const outputEnded = Promise.all([drain(child.stdout, "stdout", sink), drain(child.stderr, "stderr", sink)]);
  let stdin = withStdin ? child.stdin : undefined;
  return {
    kind: "pipes",
    pid: child.pid,
    exited: child.exited.then(() => ({ code: child.exitCode, signal: child.signalCode })),
    outputEnded: outputEnded.then(() => undefined),
    async write(bytes) {
      for (let at = 0; at < bytes.length; at += INPUT_SLICE_MAX_BYTES) {
        if (stdin === undefined) throw refuse("internal", "stdin of this process is not open");
        await stdin.write(bytes.subarray(at, at + INPUT_SLICE_MAX_BYTES));
        await stdin.flush();
      }
    },
    async closeInput() {
      const open = stdin;
      stdin = undefined;
      await open?.end();
    },
    resize() {
      throw refuse("internal", "this process has no terminal to resize");
    },
    kill: (signal) => child.kill(signal),
    // The output pipes stay open: a descendant that outlived the process may go on writing, unheard, without dying of it.
    release: () => void stdin?.end(),
  };
}

async function drain(output: ReadableStream<Uint8Array>, kind: "stdout" | "stderr", sink: OutputSink): Promise<void> {
  try {
    for await (const chunk of output) await sink(kind, chunk);
  } catch (thrown) {
    logError("reading a process's output failed", thrown, { kind });
  }
}
