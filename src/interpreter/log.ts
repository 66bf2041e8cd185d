/** What goes wrong and is nobody's answer: to the server's error output, which its supervisor keeps. */
import { described, stderrLog } from "../work/log.ts";
import { LOG_LINES_MAX } from "./limits.ts";

let logged = 0;

export function logFailure(event: string, error: unknown): void {
  if (++logged > LOG_LINES_MAX) return;
  stderrLog.write({ level: "warn", event, error: described(error) });
}
