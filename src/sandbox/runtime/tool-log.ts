/** Reads the log of a tool. A sandbox can influence its length, so only the end is read. */
import { TOOL_LOG_MAX_BYTES } from "../limits.ts";

/** Empty when there is no log. */
export async function readToolLog(path: string, maxBytes = TOOL_LOG_MAX_BYTES): Promise<string> {
  const log = Bun.file(path);
  return log.size === 0 ? "" : await log.slice(Math.max(0, log.size - maxBytes)).text();
}
