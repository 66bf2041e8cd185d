/** The setting for a store in Postgres. Its password appears in no message. */
import { HIDDEN_PASSWORD } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";

export interface PostgresStore {
  /** With the password. */
  url: string;
  /** `HOST:PORT/DATABASE`, for people. */
  shown: string;
  password: string;
  /** Whether rows cross a network without encryption. */
  isExposed: boolean;
}

const FORM = "use postgres://USER:PASSWORD@HOST/DATABASE";
const PORT_DEFAULT = "5432";
const PARAMETER = "sslmode";
const OPEN_MODES = ["disable", "prefer"];
const TLS_MODES = OPEN_MODES.concat("require", "verify-ca", "verify-full");
const LOOPBACK = /^(?:localhost|127\.[\d.]+|\[::1\])$/;

/** Messages quote nothing of the text: in a malformed URL any part may be the password. */
export function parsePostgresUrl(key: string, text: string): PostgresStore {
  const refuse = (problem: string) => new Fault(400, `${key} ${problem}; ${FORM}`);
  if (!/^postgres(?:ql)?:\/\//.test(text)) throw refuse("must begin with postgres://");
  if (!URL.canParse(text)) {
    throw refuse("is no valid URL; write special characters of the password in percent form, such as %40 for @");
  }
  const { username, password, hostname, port, pathname, searchParams, hash } = new URL(text);
  if (hash !== "") throw refuse("has a #; write it as %23 in a password");
  if (username === "") throw refuse("has no user");
  if (hostname === "") throw refuse("has no host");
  if (!/^\/[^/]+$/.test(pathname)) throw refuse("must have the name of one database after the host");
  const [decodedPassword, database] = [decoded(password), decoded(pathname.slice(1))];
  if (decodedPassword === undefined || database === undefined) {
    throw refuse("has a % that begins no percent form; write it as %25");
  }
  if ([...searchParams.keys()].some((name) => name !== PARAMETER))
    throw refuse(`may have no parameter but ${PARAMETER}`);
  const mode = searchParams.get(PARAMETER);
  if (mode !== null && !TLS_MODES.includes(mode)) throw refuse(`must have as ${PARAMETER} ${TLS_MODES.join(", ")}`);
  return {
    url: text,
    shown: `${hostname}:${port || PORT_DEFAULT}/${database}`,
    password: decodedPassword,
    isExposed: !LOOPBACK.test(hostname) && OPEN_MODES.includes(mode ?? "disable"),
  };
}

/** The same text with a hidden password. */
export function withoutPassword(text: string): string {
  return text.replace(/^([a-z]+:\/\/[^:@/]*):[\s\S]*@/i, `$1:${HIDDEN_PASSWORD}@`);
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
