/**
 * `$VAR` and `${VAR}` in the arguments of steps, as Docker has them: `${VAR:-other}` and `${VAR:+other}` as well, and
 * `\$` for the sign itself. Commands are not substituted. A variable that nobody set is empty.
 */
import { Fault } from "../../contract/fault.ts";
import { BUILD_VALUE_MAX_BYTES } from "../limits.ts";

/** What every process has, whatever the steps say. */
export const PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const REFERENCE = /\\\$|\$(?:(?<name>[A-Za-z_]\w*)|\{(?<braced>[A-Za-z_]\w*)(?::(?<rule>[-+])(?<other>[^{}]*))?\})/g;

/** Fault 422 when the result is longer than any variable can be: a few steps could double a value without end. */
export function expand(text: string, variables: Readonly<Record<string, string>>): string {
  let bytes = 0;
  const counted = (piece: string) => {
    bytes += Buffer.byteLength(piece);
    if (bytes <= BUILD_VALUE_MAX_BYTES) return piece;
    throw new Fault(
      422,
      `${JSON.stringify(text.slice(0, 100))} has more than ${BUILD_VALUE_MAX_BYTES} bytes with its variables put in`,
    );
  };
  let result = "";
  let at = 0;
  for (const found of text.matchAll(REFERENCE)) {
    result += counted(text.slice(at, found.index)) + counted(meaningOf(found, variables));
    at = found.index + found[0].length;
  }
  return result + counted(text.slice(at));
}

function meaningOf({ 0: whole, groups }: RegExpExecArray, variables: Readonly<Record<string, string>>): string {
  if (whole === "\\$") return "$";
  const name = groups?.name ?? groups?.braced ?? "";
  const value = Object.hasOwn(variables, name) ? (variables[name] ?? "") : "";
  const other = groups?.other ?? "";
  if (groups?.rule === "-") return value === "" ? other : value;
  if (groups?.rule === "+") return value === "" ? "" : other;
  return value;
}
