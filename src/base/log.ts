/**
 * Structured log: one JSON object per line. Callers keep secrets out of entries: no header, no body, no query string.
 * Keys and tokens that a client put elsewhere, such as into a path, are masked. A line for a request has its id.
 */
import { currentRequest } from "./current-request.ts";

export interface Log {
  write(entry: LogEntry): void;
}

export interface LogEntry {
  level: "info" | "warn" | "error";
  /** What happened, in a few words that are the same every time. */
  event: string;
  [detail: string]: string | number | boolean | null | undefined;
}

export function jsonLog(writeLine: (line: string, entry: LogEntry) => void, now: () => number = Date.now): Log {
  return {
    write(entry) {
      const line = { time: new Date(now()).toISOString(), ...entry, request: entry.request ?? currentRequest()?.id };
      writeLine(masked(JSON.stringify(line)), entry);
    },
  };
}

/** API keys, access and admin tokens, also with encoded underscores; and volume tokens, which are signed JSON. */
const KEYS = /((?:(?:sk(?:_|%5f))?e2b|sandlot(?:_|%5f)admin)(?:_|%5f))([0-9a-f]{8,})/gi;
const SIGNED = /\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}/g;
/** Of URLs of databases, also without the encoding of special characters. */
const PASSWORDS = /(postgres(?:ql)?:\/\/[^:@/\s"]*):[^\s"]*@/gi;
export const HIDDEN_PASSWORD = "…";
/** A shorter value could be guessed from its ends. */
const ENDS_SHOWN_MIN_CHARS = 32;

/** Masks keys and tokens the way key lists show them: `e2b_ab…wxyz`, and passwords of databases. */
export function masked(text: string): string {
  return text
    .replace(KEYS, (_, prefix: string, value: string) => {
      const end = value.length >= ENDS_SHOWN_MIN_CHARS ? value.slice(-4) : "";
      return `${prefix}${value.slice(0, 2)}…${end}`;
    })
    .replace(SIGNED, "eyJ…")
    .replace(PASSWORDS, `$1:${HIDDEN_PASSWORD}@`);
}

const listeners: ((entry: LogEntry, line: string) => void)[] = [];

/** Calls the listener for every line of the program's log. It must not throw. */
export function onLogLine(listener: (entry: LogEntry, line: string) => void): void {
  listeners.push(listener);
}

/** The program's log, for code that gets no other. */
export const stderrLog: Log = jsonLog((line, entry) => {
  process.stderr.write(`${line}\n`);
  for (const listener of listeners) listener(entry, line);
});

/** An error with all its causes, for a log line. */
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
