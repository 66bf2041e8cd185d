/** One line of a sandbox's log, as host, control and store hand it on. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LogLine {
  /** Milliseconds since 1970. */
  at: number;
  level: LogLevel;
  message: string;
  /** `logger` is always among them. */
  fields: Record<string, string>;
}
