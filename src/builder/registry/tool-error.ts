/** Translates errors of skopeo and umoci for the author of a build. Pure. */

/** Length of a tool's output that an error shows. */
export const FETCH_REASON_MAX_CHARS = 600;

/** The first match wins. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/no space left on device|disk quota/i, "it is larger than what an image may take"],
  [/toomanyrequests|too many requests|429/i, "its registry takes no more requests for now. FIX: try again later"],
  [/manifest unknown|name unknown|not found|404/i, "its registry has no such image"],
  [
    /unauthorized|authentication required|denied|forbidden|invalid username\/password|\b40[13]\b/i,
    "its registry does not let it be read. FIX: check its name, and the credentials of the build",
  ],
  [
    /digest did not match|does not match|mismatch|verification failed|content (?:size|length)/i,
    "what its registry sends is not what it promised",
  ],
  [
    /connection refused|no route to host|network is unreachable|no such host|server misbehaving/i,
    "its registry cannot be reached. Private addresses are closed to builds unless the operator allows them",
  ],
  [/deadline exceeded|timeout|timed out/i, "its registry did not answer in time"],
  [
    /x509|certificate|tls:/i,
    "the certificate of its registry is not one that this machine trusts. FIX: the operator can add its authority",
  ],
];

/** Why a tool failed: an explanation, then the tool's own words, with all secrets removed. */
export function reasonOf(output: string, secrets: readonly string[]): string {
  const own = scrubbed(lastLines(output), secrets);
  const reason = REASONS.find(([pattern]) => pattern.test(own))?.[1];
  const shown = own.length > FETCH_REASON_MAX_CHARS ? `…${own.slice(-FETCH_REASON_MAX_CHARS)}` : own;
  if (shown === "") return reason ?? "no reason was given";
  return reason === undefined ? shown : `${reason} (${shown})`;
}

/** skopeo: `… level=fatal msg="…"`; umoci: `⨯ …`; otherwise the last line. */
function lastLines(output: string): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "");
  const fatal = lines.findLast((line) => /level=(?:fatal|error)|^\s*⨯/.test(line)) ?? lines.at(-1) ?? "";
  const quoted = /msg="((?:[^"\\]|\\.)*)"/.exec(fatal)?.[1];
  const text = quoted === undefined ? fatal.replace(/^\s*⨯\s*/, "") : quoted.replace(/\\(["\\])/g, "$1");
  // Remove control characters such as terminal escapes.
  return [...text]
    .map((char) => (/\p{Cc}/u.test(char) ? " " : char))
    .join("")
    .trim();
}

function scrubbed(text: string, secrets: readonly string[]): string {
  const forms = secrets.flatMap((secret) => [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1)]);
  return forms.filter((form) => form !== "").reduce((rest, form) => rest.replaceAll(form, "***"), text);
}
