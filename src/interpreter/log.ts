/** Logs failures that no response reports to stderr, which the server's supervisor keeps. */
import { described, stderrLog } from "../base/log.ts";

/** Maximum log lines per start of the server, because code in the sandbox can cause log entries. */
const LOG_LINES_MAX = 10_000;

let logged = 0;

export function logFailure(event: string, error: unknown): void {
  if (++logged > LOG_LINES_MAX) return;
  stderrLog.write({ level: "warn", event, error: described(error) });
}
