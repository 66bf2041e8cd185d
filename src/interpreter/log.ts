/** What goes wrong and is nobody's answer: to the server's error output, which its supervisor keeps. */
import { described, stderrLog } from "../base/log.ts";

/** Of the server's own log, until it is started anew: code in the sandbox can make it say things. */
const LOG_LINES_MAX = 10_000;

let logged = 0;

export function logFailure(event: string, error: unknown): void {
  if (++logged > LOG_LINES_MAX) return;
  stderrLog.write({ level: "warn", event, error: described(error) });
}
