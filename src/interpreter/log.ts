/** What goes wrong and is nobody's answer: to the server's error output, which its supervisor keeps. */
import { described, stderrLog } from "../work/log.ts";

export function logFailure(event: string, error: unknown): void {
  stderrLog.write({ level: "warn", event, error: described(error) });
}
