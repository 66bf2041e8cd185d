/** One JSON object a line. Whoever writes an entry keeps secrets out of it: no header, no body, no query string. */
export interface Log {
  write(entry: LogEntry): void;
}

export interface LogEntry {
  level: "info" | "warn" | "error";
  /** What happened, in a few words that stay the same from one time to the next. */
  event: string;
  [detail: string]: string | number | boolean | null | undefined;
}

export function jsonLog(writeLine: (line: string) => void, now: () => number = Date.now): Log {
  return {
    write: (entry) => writeLine(JSON.stringify({ time: new Date(now()).toISOString(), ...entry })),
  };
}

/** That of a whole program, for code deep below that is told of no other. */
export const stderrLog: Log = jsonLog((line) => process.stderr.write(`${line}\n`));

/** An error with all it was caused by, for a log line. */
export function described(thrown: unknown): string {
  const parts: string[] = [];
  for (
    let error = thrown;
    error !== undefined && parts.length < 8;
    error = error instanceof Error ? error.cause : undefined
  ) {
    parts.push(error instanceof Error ? error.stack || `${error.name}: ${error.message}` : String(error));
  }
  return parts.join("\ncaused by ");
}
