/**
 * The Range header of a download and the conditions that go with it, as every static file server understands them.
 */
interface ByteRange {
  start: number;
  /** Inclusive. */
  end: number;
}

/** One range, "all" when the header asks for nothing we serve in part, or "unsatisfiable". */
export function parseRange(header: string | null, size: number): ByteRange | "all" | "unsatisfiable" {
  if (header === null) return "all";
  if (!header.startsWith("bytes=")) return "unsatisfiable";
  const ranges = header.slice("bytes=".length).split(",");
  // Several ranges at once may be answered with the whole, and no client of ours asks for them.
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

/** Whether the client's copy is still good. There are no entity tags, so If-None-Match only ever matches `*`. */
export function isUnchanged(headers: Headers, modifiedMs: number): boolean {
  const tags = headers.get("if-none-match");
  if (tags !== null) return tags.trim() === "*";
  const since = Date.parse(headers.get("if-modified-since") ?? "");
  return !Number.isNaN(since) && wholeSeconds(modifiedMs) <= wholeSeconds(since);
}

/** A range guarded by If-Range holds only while the file is exactly the one the client knows. */
export function rangeHolds(headers: Headers, modifiedMs: number): boolean {
  const guard = headers.get("if-range");
  return guard === null || wholeSeconds(Date.parse(guard)) === wholeSeconds(modifiedMs);
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
