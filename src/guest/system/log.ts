/** The guest's log: JSON lines on stderr, used sparingly. Never pass a secret or a file's content. */
type Fields = Record<string, string | number | undefined>;

let mirror: ((level: "error" | "info", message: string) => void) | undefined;

/** Also sends each message to `listener`, without details, which are for the operator only. */
export function mirrorLog(listener: typeof mirror): void {
  mirror = listener;
}

export function logError(message: string, thrown: unknown, fields: Fields = {}): void {
  writeLine({ level: "error", message, ...fields, error: describe(thrown) });
  mirror?.("error", message);
}

export function logNotice(message: string, fields: Fields = {}): void {
  writeLine({ level: "info", message, ...fields });
  mirror?.("info", message);
}

function writeLine(line: Fields): void {
  process.stderr.write(`${JSON.stringify({ timestamp: new Date().toISOString(), logger: "guest", ...line })}\n`);
}

function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const own = thrown.stack ?? thrown.message;
  return thrown.cause === undefined ? own : `${own}; caused by ${String(thrown.cause)}`;
}
