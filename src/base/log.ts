/**
 * One JSON object a line. Code that writes an entry keeps secrets out of it: no header, no body, no query string. Keys
 * and tokens that a client put elsewhere, such as into a path, are masked.
 */
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
    write: (entry) => writeLine(masked(JSON.stringify({ time: new Date(now()).toISOString(), ...entry }))),
  };
}

/** API keys and access tokens, also with an encoded underscore; and tokens of volumes, which are signed JSON. */
const KEYS = /((?:sk(?:_|%5f))?e2b(?:_|%5f))([0-9a-f]{8,})/gi;
const SIGNED = /\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}/g;
/** A shorter one would be guessed from its ends. */
const ENDS_SHOWN_MIN_CHARS = 32;

/** The text with keys and tokens as lists of them show them: `e2b_ab…wxyz`. */
export function masked(text: string): string {
  return text
    .replace(KEYS, (_, prefix: string, value: string) => {
      const end = value.length >= ENDS_SHOWN_MIN_CHARS ? value.slice(-4) : "";
      return `${prefix}${value.slice(0, 2)}…${end}`;
    })
    .replace(SIGNED, "eyJ…");
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
