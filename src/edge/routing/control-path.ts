/**
 * Refuses internal paths on the runtime port, which also carries the control channel between host and guest. No client
 * may reach it, in any spelling of its paths; nor the control endpoints of the original runtime, whose names clients
 * may know.
 */
import { CONTROL_PREFIX } from "../../contract/runtime/guest-control.ts";

/** A path that still changes after so many percent-decodings hides something, and is rejected on the runtime port. */
const EDGE_PATH_DECODINGS_MAX = 8;
/** Refused exactly, in this case only: `/init/x` and `/INIT` are ordinary unknown paths of the runtime. */
const INTERNAL_ENDPOINTS: ReadonlySet<string> = new Set([
  "/collapse",
  "/freeze",
  "/fsfreeze",
  "/fsthaw",
  "/init",
  "/unfreeze",
  "/upgrade",
]);

const CONTROL_ROOT = CONTROL_PREFIX.slice(0, -1);
const PERCENT_ENCODED = /%([0-9a-fA-F]{2})/g;

/**
 * The internal path that a request target leads to, or undefined. Checks every level of decoding, because safety must
 * not depend on how often the receiver decodes.
 */
export function internalPath(target: string): string | undefined {
  const query = target.indexOf("?");
  let path = query < 0 ? target : target.slice(0, query);
  for (let level = 0; level <= EDGE_PATH_DECODINGS_MAX; level += 1) {
    const cleaned = cleanPath(path);
    if (isInternal(cleaned)) return cleaned;
    if (!path.includes("%")) return undefined;
    const decoded = path.replace(PERCENT_ENCODED, decodeOctet);
    if (decoded === path) return undefined;
    path = decoded;
  }
  return cleanPath(path);
}

function isInternal(path: string): boolean {
  if (INTERNAL_ENDPOINTS.has(path)) return true;
  if (path.length < CONTROL_ROOT.length) return false;
  // The control prefix is rejected in any case, so that safety does not depend on the guest's case rules.
  const lower = path.slice(0, CONTROL_PREFIX.length).toLowerCase();
  return lower === CONTROL_PREFIX || (lower === CONTROL_ROOT && path.length === CONTROL_ROOT.length);
}

/** One slash between segments, none at the end, no `.` and `..`; a backslash counts as a slash. */
function cleanPath(path: string): string {
  if (!path.includes("//") && !path.includes("/.") && !path.includes("\\") && !path.endsWith("/")) return path;
  const kept: string[] = [];
  for (const segment of path.replaceAll("\\", "/").split("/")) {
    if (segment === "" || segment === ".") continue;
    if (segment === "..") kept.pop();
    else kept.push(segment);
  }
  return `/${kept.join("/")}`;
}

function decodeOctet(_match: string, hex: string): string {
  return String.fromCharCode(Number.parseInt(hex, 16));
}
