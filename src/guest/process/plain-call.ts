/**
 * A Start in the form in which nearly all of them come: a small message in JSON with the fields that there are, of
 * their own types. It is read here without the protocol library, which a guest then does not have to load. Whatever is
 * not exactly of this form is left to the library, which knows what to take and what to refuse.
 */
import { PLAIN_START_MAX_BYTES } from "../limits.ts";
import { onlyPayload } from "../rpc/envelopes.ts";
import type { StartCall } from "./launcher.ts";
import type { ProcessTexts } from "./start-texts.ts";

export const PLAIN_TYPE = "application/connect+json";

type Fields = Record<string, unknown>;
type Kind = "string" | "boolean" | "object";

const CALL: Record<string, Kind> = { process: "object", pty: "object", tag: "string", stdin: "boolean" };
const PROCESS: Record<string, Kind> = { cmd: "string", args: "object", envs: "object", cwd: "string" };
const UINT32_MAX = 2 ** 32 - 1;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Whether the head of a request is that of a plain one. Its body has to be looked at then. */
export function isPlainHead({ method, headers }: Request): boolean {
  const length = headers.get("content-length") ?? "";
  return (
    method === "POST" &&
    headers.get("content-type") === PLAIN_TYPE &&
    /^\d{1,6}$/.test(length) &&
    Number(length) <= PLAIN_START_MAX_BYTES &&
    (headers.get("connect-protocol-version") ?? "1") === "1" &&
    !headers.has("connect-content-encoding") &&
    /^[1-9]\d{0,8}$/.test(headers.get("connect-timeout-ms") ?? "1")
  );
}

/** Of a request with a plain head. */
export function plainTimeoutMs(headers: Headers): number | undefined {
  const text = headers.get("connect-timeout-ms");
  return text === null ? undefined : Number(text);
}

/** Undefined is one for the library. */
export function plainCall(body: Uint8Array): StartCall | undefined {
  const payload = onlyPayload(body);
  if (payload === undefined) return undefined;
  let call: unknown;
  try {
    const text = utf8.decode(payload);
    // Half a character can only be written like this.
    if (text.includes("\\u")) return undefined;
    call = JSON.parse(text);
  } catch {
    // The library says what is wrong with it.
    return undefined;
  }
  return isCall(call) ? { ...call, process: withDefaults(call.process) } : undefined;
}

/** What may be left out of a message has its usual value then. */
type Sent = Omit<StartCall, "process"> & { process: Partial<ProcessTexts> };

function isCall(value: unknown): value is Sent {
  return isFields(value) && hasKinds(value, CALL) && isProcess(value.process) && isTerminal(value.pty);
}

function withDefaults({ cmd = "", args = [], envs = {}, cwd }: Partial<ProcessTexts>): ProcessTexts {
  return { cmd, args, envs, cwd };
}

function isProcess(value: unknown): boolean {
  if (!isFields(value) || !hasKinds(value, PROCESS)) return false;
  const { args = [], envs = {} } = value;
  return Array.isArray(args) && args.every(isText) && isFields(envs) && Object.entries(envs).every(isVariable);
}

function isTerminal(value: unknown): boolean {
  if (value === undefined) return true;
  if (!isFields(value)) return false;
  const { size, ...unknown } = value;
  if (!isFields(size) || Object.keys(unknown).length > 0) return false;
  const { cols, rows, ...others } = size;
  return isUint32(cols) && isUint32(rows) && Object.keys(others).length === 0;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Has no other fields, and none that is null. */
function hasKinds(fields: Fields, kinds: Record<string, Kind>): boolean {
  return Object.entries(fields).every(
    ([name, value]) => Object.hasOwn(kinds, name) && typeof value === kinds[name] && value !== null,
  );
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

/** A name that is the object's own business is the library's, too. */
function isVariable([name, value]: [string, unknown]): boolean {
  return name !== "__proto__" && isText(value);
}

function isUint32(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= UINT32_MAX;
}
