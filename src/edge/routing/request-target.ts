/**
 * Path and query of a request. A target in absolute form never names another machine: the Host header decides. Dot
 * segments are resolved here, so that the receiver need not. Non-ASCII characters are escaped: cut to one byte on the
 * way to a sandbox, a character such as U+010A would be a line end.
 */
const ABSOLUTE = /^https?:\/\/[^/?#]*/i;
const NOT_ASCII = /[^!-~]/;
const EACH_NOT_ASCII = /[^!-~]/g;
const MAY_HAVE_DOTS = /\/(?:\.|%2e)/i;
const DOT = /^(?:\.|%2e)$/i;
const TWO_DOTS = /^(?:\.|%2e){2}$/i;

/** Takes a target as sent, one character per byte. Anything but a path or a URL is returned unchanged. */
export function targetOf(sent: string): string {
  const absolute = sent.startsWith("/") ? null : ABSOLUTE.exec(sent);
  let target = absolute === null ? sent : sent.slice(absolute[0].length);
  const fragment = target.indexOf("#");
  if (fragment >= 0) target = target.slice(0, fragment);
  if (absolute !== null && !target.startsWith("/")) target = `/${target}`;
  if (MAY_HAVE_DOTS.test(target)) target = withoutDots(target);
  return NOT_ASCII.test(target) ? target.replace(EACH_NOT_ASCII, escaped) : target;
}

function withoutDots(target: string): string {
  const query = target.indexOf("?");
  const [path, rest] = query < 0 ? [target, ""] : [target.slice(0, query), target.slice(query)];
  if (!path.startsWith("/")) return target;
  const segments = path.slice(1).split("/");
  const kept: string[] = [];
  for (const [at, segment] of segments.entries()) {
    const isUp = TWO_DOTS.test(segment);
    if (isUp) kept.pop();
    if (!isUp && !DOT.test(segment)) kept.push(segment);
    else if (at === segments.length - 1) kept.push("");
  }
  return `/${kept.join("/")}${rest}`;
}

function escaped(letter: string): string {
  return `%${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}
