/** One line of a sandbox's log, shared by host, control and store. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LogLine {
  /** Milliseconds since 1970. */
  at: number;
  level: LogLevel;
  message: string;
  /** `logger` is always present. */
  fields: Record<string, string>;
}
