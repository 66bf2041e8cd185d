/** Reads the log of a tool. A sandbox can influence its length, so only the end is read. */
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { TOOL_LOG_MAX_BYTES } from "../limits.ts";

/** Empty when there is no log. */
export function readToolLog(path: string, maxBytes = TOOL_LOG_MAX_BYTES): string {
  if (!existsSync(path)) return "";
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const end = Buffer.alloc(Math.min(size, maxBytes));
    const length = readSync(file, end, 0, end.length, size - end.length);
    return end.toString("utf8", 0, length);
  } finally {
    closeSync(file);
  }
}
