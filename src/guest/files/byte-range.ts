/** The Range header of a download and its conditional headers, with the usual rules of static file servers. */
interface ByteRange {
  start: number;
  /** Inclusive. */
  end: number;
}

/** One range, "all" if the whole file is to be sent, or "unsatisfiable". */
export function parseRange(header: string | null, size: number): ByteRange | "all" | "unsatisfiable" {
  if (header === null) return "all";
  if (!header.startsWith("bytes=")) return "unsatisfiable";
  const ranges = header.slice("bytes=".length).split(",");
  // HTTP allows the whole file as response to several ranges, and no supported client requests several.
  if (ranges.length > 1) return "all";
  const match = /^\s*(\d{0,15})-(\d{0,15})\s*$/.exec(ranges[0] ?? "");
  const [, first = "", last = ""] = match ?? [];
  if (match === null || (first === "" && last === "")) return "unsatisfiable";
  if (first === "") return suffix(Number(last), size);
  const start = Number(first);
  const end = last === "" ? size - 1 : Math.min(Number(last), size - 1);
  return start >= size || (last !== "" && Number(last) < start) ? "unsatisfiable" : { start, end };
}

function suffix(length: number, size: number): ByteRange | "unsatisfiable" {
  if (length === 0 || size === 0) return "unsatisfiable";
  return { start: Math.max(0, size - length), end: size - 1 };
}

/** Whether the client's copy is current. There are no entity tags, so If-None-Match only matches `*`. */
export function isUnchanged(headers: Headers, modifiedMs: number): boolean {
  const tags = headers.get("if-none-match");
  if (tags !== null) return tags.trim() === "*";
  const since = Date.parse(headers.get("if-modified-since") ?? "");
  return !Number.isNaN(since) && wholeSeconds(modifiedMs) <= wholeSeconds(since);
}

/** If-Range: the range is valid only if the modification time is exactly the client's. */
export function rangeHolds(headers: Headers, modifiedMs: number): boolean {
  const guard = headers.get("if-range");
  return guard === null || wholeSeconds(Date.parse(guard)) === wholeSeconds(modifiedMs);
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
