/** The lines of the head of an HTTP message, and how the body that follows it ends. */

/** `close`: it goes on until the connection ends. `length`: of so many bytes. */
export type Framing = { kind: "length"; bytes: number } | { kind: "chunked" } | { kind: "close" };

export const NO_BODY: Framing = { kind: "length", bytes: 0 };

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Large enough for any file, and exact as a number. */
const LENGTH = /^\d{1,15}$/;

export interface Head {
  first: string;
  /** By their names in lower case; each value without blanks around it. */
  fields: ReadonlyMap<string, readonly string[]>;
}

/** Of bytes that `HeadReader` has found. Undefined: a line is none. */
export function headOf(bytes: Buffer): Head | undefined {
  const [first, ...lines] = bytes.toString("latin1").slice(0, -4).split("\r\n");
  const fields = new Map<string, string[]>();
  for (const line of lines) {
    const field = fieldOf(line);
    if (field === undefined) return undefined;
    const values = fields.get(field.name);
    if (values === undefined) fields.set(field.name, [field.value]);
    else values.push(field.value);
  }
  return first === undefined || first === "" ? undefined : { first, fields };
}

/** A line that begins with a blank would belong to the one before for some, and is none for others. */
export function fieldOf(line: string): { name: string; value: string } | undefined {
  const colon = line.indexOf(":");
  const name = line.slice(0, colon);
  if (colon < 1 || !NAME.test(name)) return undefined;
  return { name: name.toLowerCase(), value: line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, "") };
}

/** Undefined: what is said about it can be read in two ways. Null: nothing is said. */
export function framingOf({ fields }: Head): Framing | null | undefined {
  const lengths = fields.get("content-length");
  const codings = fields.get("transfer-encoding");
  if (lengths === undefined && codings === undefined) return null;
  if (lengths !== undefined && codings !== undefined) return undefined;
  if (codings !== undefined) {
    return codings.length === 1 && codings[0]?.toLowerCase() === "chunked" ? { kind: "chunked" } : undefined;
  }
  const [length] = lengths ?? [];
  if (lengths?.length !== 1 || length === undefined || !LENGTH.test(length)) return undefined;
  return { kind: "length", bytes: Number(length) };
}

/** The members of a list that may be spread over several fields. */
export function listed({ fields }: Head, name: string): string[] {
  return (fields.get(name) ?? []).flatMap((value) => value.split(",")).map((member) => member.trim().toLowerCase());
}
