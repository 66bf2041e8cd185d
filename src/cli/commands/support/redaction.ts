/** Removes what looks like a secret from texts that leave the machine. */

const REMOVED = "[removed]";

/** The parts of a match to keep are its groups 1 and 2. Repetitions are bounded: hostile text must not take long. */
const SECRETS: readonly RegExp[] = [
  // API keys, access and admin tokens, also masked or with an encoded underscore, and volume tokens.
  /()(?:(?:sk(?:_|%5f))?e2b|sandlot(?:_|%5f)admin)(?:_|%5f)[\w…]+()/gi,
  /()\beyJ[\w-]+(?:\.[\w-]*)*(?:…)?()/g,
  // Signatures of links.
  /(\bsignature=)[^&\s"']+()/gi,
  // User and password in a URL.
  /(\b[a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@"']+(@)/gi,
  // Values of headers and of names that say it: Authorization: Bearer x, "password":"x", REGISTRY_TOKEN=x.
  /(\b(?:authorization|proxy-authorization|cookie|set-cookie)["']?\s{0,4}[:=]\s{0,4}["']?)[^"'\r\n]+()/gi,
  /((?:password|passwd|secret|token|api[-_]?key|credential|private[-_]?key)[\w-]{0,40}\\?["']?\s{0,4}[:=]\s{0,4})(?:\\?"[^"]*"|\\?'[^']*'|[^\s,;"'{}[\]]+)()/gi,
  // Options of commands, also as JSON: --token x, "--token","x", -p x, -px, -u user:x.
  /((?<=--[\w-]{0,40})(?:password|passwd|secret|token|key|credential)[\w-]{0,40}\\?["']?[ \t,]{1,4})(?:\\?"[^"]*"|\\?'[^']*'|[^\s,;"'{}[\]]+)()/gi,
  /((?<![\w-])-p\\?["']?[ \t,=]{0,4}\\?["']?)[^\s,;"'{}[\]\\]+()/g,
  /((?<![\w-])(?:-u|--user|--proxy-user)\\?["']?[ \t,=]{1,4}\\?["']?[^\s:"',]{1,100}:)[^\s,;"'{}[\]\\]+()/g,
  /(\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}()/gi,
  /()-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)()/g,
];

/** A shorter value, such as `1` of an environment variable, is no secret, and occurs everywhere. */
const KNOWN_MIN_CHARS = 6;

/** `known`: secrets to remove wherever they are. */
export function redacted(text: string, known: readonly string[] = []): string {
  let clean = text;
  for (const secret of known) if (secret.length >= KNOWN_MIN_CHARS) clean = clean.replaceAll(secret, REMOVED);
  return SECRETS.reduce((rest, pattern) => rest.replace(pattern, `$1${REMOVED}$2`), clean);
}
