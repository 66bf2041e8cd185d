/** Log of the gateway and its servers: a file that keeps the most recent lines. */
import { appendFileSync, renameSync, statSync } from "node:fs";

const LOG_MAX_BYTES = 1024 * 1024;

export const LOG_FILE = "/var/log/mcp-gateway.log";

export class LogFile {
  #bytes: number;

  constructor(private readonly path: string) {
    this.#bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Never fails: a full disk must not stop the gateway. */
  write(line: string): void {
    const text = `${new Date().toISOString()} ${line}\n`;
    try {
      if (this.#bytes > LOG_MAX_BYTES) {
        renameSync(this.path, `${this.path}.1`);
        this.#bytes = 0;
      }
      appendFileSync(this.path, text, { mode: 0o600 });
      this.#bytes += Buffer.byteLength(text);
    } catch {
      // There is no other place to report this.
    }
  }
}
