/** Explains why packages could not be fetched, and what to do. Pure. */
import { errorMessage } from "../base/error-message.ts";
import { Fault } from "../contract/fault.ts";

const FULL = /No space left on device|ENOSPC|don't have enough free space/;
const UNREACHED =
  /Could not connect|Could not resolve|Temporary failure resolving|Unable to connect|Failed to fetch|Connection (?:refused|timed out|failed)|ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH/;
const ABSENT =
  /Unable to locate package|has no installation candidate|does not have a Release file|\bE404\b|\bETARGET\b/;

interface Place {
  cacheFolder: string;
  /** The source of packages, and how to make it reachable. */
  source: string;
  reach: string;
}

export function debianPlace(cacheFolder: string, mirror: string | undefined): Place {
  const source = mirror === undefined ? "Debian's mirrors" : "the mirror of SANDLOT_DEBIAN_MIRROR";
  const reach = "let it reach them, or name a mirror that it reaches with SANDLOT_DEBIAN_MIRROR";
  return { cacheFolder, source, reach };
}

export function npmPlace(cacheFolder: string): Place {
  return { cacheFolder, source: "npm's registry", reach: "let root's npm on this machine reach a registry" };
}

/** Whether a retry may succeed. */
export function isUnreached(cause: unknown): boolean {
  const message = errorMessage(cause);
  return UNREACHED.test(message) && !FULL.test(message) && !ABSENT.test(message);
}

/** Explains a tool's error. An unknown error stays unchanged for the server's log. */
export function fetchFault(cause: unknown, { cacheFolder, source, reach }: Place): unknown {
  const message = errorMessage(cause);
  if (FULL.test(message)) {
    const fix = `make room on the disk of ${cacheFolder}, or set SANDLOT_CACHE to a folder elsewhere`;
    return new Fault(507, `the disk is full. FIX: ${fix}`, { cause });
  }
  if (ABSENT.test(message)) {
    return new Fault(422, `not all that is needed is on ${source}. FIX: ${reach}`, { cause });
  }
  if (isUnreached(cause)) {
    return new Fault(503, `this machine does not reach ${source}. FIX: ${reach}; then try again`, { cause });
  }
  return cause;
}
