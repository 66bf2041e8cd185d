/** Journal entries for the start and end of a client's process: command, user, bytes carried. */
import { errorMessage } from "../../base/error-message.ts";
import { JOURNAL_TEXT_MAX_CHARS } from "../../contract/runtime/limits.ts";
import type { Journal } from "../journal/journal.ts";
import type { Account } from "../users/accounts.ts";
import type { GuestProcess } from "./guest-process.ts";
import type { StartCall } from "./launcher.ts";

export function noteProcess(
  journal: Journal,
  process: GuestProcess,
  account: Account,
  { lifetimeMs, requestId }: { lifetimeMs: number | undefined; requestId: string | undefined },
): void {
  const startedAt = performance.now();
  const { pid, tag } = process;
  const command = commandLine(process.config);
  journal.note("process", "info", "Process started", {
    event_type: "process_start",
    pid,
    command,
    cwd: process.cwd,
    user: account.name,
    tag,
    request_timeout_ms: lifetimeMs,
    request_id: requestId,
  });
  void process.ended.then((end) => {
    const { stdin, stdout, stderr, pty } = process.byteCounts;
    journal.note("process", "info", "Process ended", {
      event_type: "process_end",
      pid,
      command,
      tag,
      exit_code: end.exitCode,
      process_result: end.status,
      error: end.error,
      duration_ms: Math.round(performance.now() - startedAt),
      stdin_bytes: stdin,
      stdout_bytes: stdout,
      stderr_bytes: stderr,
      pty_bytes: pty,
      request_id: requestId,
    });
  });
}

export function noteFailedStart(
  journal: Journal,
  request: StartCall,
  account: Account,
  { thrown, requestId }: { thrown: unknown; requestId: string | undefined },
): void {
  journal.note("process", "warn", "Process could not be started", {
    event_type: "process_start_failed",
    command: commandLine(request.process),
    user: account.name,
    tag: request.tag,
    error: errorMessage(thrown),
    request_id: requestId,
  });
}

function commandLine(config: { cmd: string; args: string[] } | undefined): string {
  // Cut early: the journal keeps no more than this, and arguments may be long.
  const words = config === undefined ? [] : [config.cmd, ...config.args.slice(0, JOURNAL_TEXT_MAX_CHARS)];
  return words.map((word) => word.slice(0, JOURNAL_TEXT_MAX_CHARS)).join(" ");
}
