/** Runs a start command until the ready command succeeds. It then continues, with its output unread. */
import { Fault } from "../contract/fault.ts";
import type { StartCommand } from "../contract/internal/host.ts";
import { abortableSleep } from "./abortable-sleep.ts";
import type { BuildContext } from "./build-context.ts";
import { type BuildSandbox, CommandFailure } from "./build-sandbox.ts";
import type { CommandOutput } from "./command-output.ts";

/** Delay between tries of the ready command: it doubles from the minimum to the maximum. */
const BUILD_READY_RETRY_MIN_MS = 50;
const BUILD_READY_RETRY_MAX_MS = 2_000;

interface StartOptions {
  start: StartCommand;
  context: BuildContext;
  output: CommandOutput;
  bounds: ReadyBounds;
}

/** Timeout until ready, and the wait without a ready command. */
export interface ReadyBounds {
  readyMaxMs: number;
  readyDefaultMs: number;
}

/** Fault 422: the command failed before it was ready, or was not ready in time. */
export async function startUntilReady(sandbox: BuildSandbox, options: StartOptions): Promise<void> {
  const { start, context, output, bounds } = options;
  const listening = new AbortController();
  const signal = AbortSignal.any([sandbox.signal, listening.signal]);
  try {
    const command = await sandbox.shellCommand(start.command, context);
    const { ended } = await sandbox.commands.start(command, output.take, signal);
    // A command that moves itself to the background exits with 0; keep waiting for readiness.
    const failed = ended.then(({ exitCode, signal: by }) => {
      if (exitCode === 0) return new Promise<never>(() => undefined);
      const how = by === "" ? `ended with exit code ${exitCode}` : `got ${by}`;
      throw new CommandFailure(start.command, `${how} before the sandbox was ready`, output.end());
    });
    const ready =
      start.ready === null
        ? abortableSleep(bounds.readyDefaultMs, signal)
        : untilReady(sandbox, start.ready, context, { maxMs: bounds.readyMaxMs, signal });
    await Promise.race([failed, ready]);
  } finally {
    listening.abort();
  }
}

async function untilReady(
  sandbox: BuildSandbox,
  line: string,
  context: BuildContext,
  { maxMs, signal }: { maxMs: number; signal: AbortSignal },
): Promise<void> {
  const late = new Fault(
    422,
    `the sandbox was not ready within ${maxMs / 1000} s: the ready command ${JSON.stringify(line)} did not succeed`,
  );
  const over = AbortSignal.any([signal, timeout(maxMs, late)]);
  const command = await sandbox.shellCommand(line, context);
  for (let pauseMs = BUILD_READY_RETRY_MIN_MS; ; pauseMs = Math.min(pauseMs * 2, BUILD_READY_RETRY_MAX_MS)) {
    const { exitCode } = await sandbox.commands.run(command, () => undefined, over);
    if (exitCode === 0) return;
    await abortableSleep(pauseMs, over);
  }
}

function timeout(ms: number, reason: Fault): AbortSignal {
  const over = new AbortController();
  setTimeout(() => over.abort(reason), ms).unref();
  return over.signal;
}
