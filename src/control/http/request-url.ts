/** The path, path parameters and query of a request, as its client wrote them. */
import { Fault } from "../../contract/fault.ts";

/** Longer paths are cut in log lines and errors. */
const SHOWN_PATH_MAX_CHARS = 256;

/** The path as sent, still encoded. */
export function rawPath(request: Request): string {
  // Without a usable Host header the URL is the bare target.
  const bare = request.url.startsWith("/");
  const pathAt = bare ? 0 : request.url.indexOf("/", request.url.indexOf("://") + 3);
  const end = request.url.slice(pathAt).search(/[?#]/);
  return pathAt < 0 ? "/" : request.url.slice(pathAt, end < 0 ? undefined : pathAt + end);
}

export function searchOf(request: Request): URLSearchParams {
  const [written = ""] = request.url.split("#", 1);
  const at = written.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : written.slice(at + 1));
}

export function shortened(path: string): string {
  return path.length > SHOWN_PATH_MAX_CHARS ? `${path.slice(0, SHOWN_PATH_MAX_CHARS)}…` : path;
}

/** Decodes each segment once, after splitting the path, so that an encoded slash stays in its segment. */
export function paramsOf(route: { path: string }, request: Request): Record<string, string> {
  const written = rawPath(request).split("/");
  const params: Record<string, string> = {};
  for (const [position, segment] of route.path.split("/").entries()) {
    if (!segment.startsWith("{")) continue;
    try {
      params[segment.slice(1, -1)] = decodeURIComponent(written[position] ?? "");
    } catch (cause) {
      throw new Fault(400, `${segment} in the path is not valid percent-encoding`, { cause });
    }
  }
  return params;
}
