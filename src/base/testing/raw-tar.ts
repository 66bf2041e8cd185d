/** Builds tar archives byte by byte, including ones that no ordinary program would write. */

const BLOCK_BYTES = 512;
const NUL = 0;

export interface RawEntry {
  name: string | Uint8Array;
  /** The type flag: "0" a file, "1" a hard link, "2" a symbolic link, "5" a folder. */
  type?: string;
  linkname?: string;
  content?: string | Uint8Array;
  /** The size in the header, independent of the content. */
  size?: number | string;
  mode?: number;
  owner?: number;
  device?: readonly [major: number, minor: number];
  prefix?: string;
  magic?: string;
  damage?: (header: Buffer) => void;
}

export const file = (name: string, content = "content", more: Partial<RawEntry> = {}): RawEntry => ({
  name,
  content,
  ...more,
});
export const folder = (name: string): RawEntry => ({ name: `${name}/`, type: "5", mode: 0o755 });
export const symlink = (name: string, linkname: string): RawEntry => ({ name, type: "2", linkname });
export const hardlink = (name: string, linkname: string): RawEntry => ({ name, type: "1", linkname });
export const special = (name: string, type: string): RawEntry => ({ name, type });

/** A pax header for the next entry, or with `g` for all that follow. */
export function pax(values: Record<string, string>, type = "x"): RawEntry {
  const records = Object.entries(values).map(([key, value]) => {
    const rest = ` ${key}=${value}\n`;
    let length = Buffer.byteLength(rest);
    while (String(length).length + Buffer.byteLength(rest) !== length) {
      length = String(length).length + Buffer.byteLength(rest);
    }
    return `${length}${rest}`;
  });
  return { name: "PaxHeader", type, content: records.join("") };
}

export const gnuLongName = (name: string, type = "L"): RawEntry => ({
  name: "././@LongLink",
  type,
  content: `${name}\0`,
  magic: "ustar  \0",
});

export const END = Buffer.alloc(2 * BLOCK_BYTES);

export function tar(entries: readonly RawEntry[], end: Uint8Array = END): Buffer<ArrayBuffer> {
  return Buffer.concat([...entries.map(blocks), end]);
}

/** One file per entry, by name. */
export function tarOf(files: Record<string, string>): Buffer<ArrayBuffer> {
  return tar(Object.entries(files).map(([name, content]) => file(name, content)));
}

function blocks(entry: RawEntry): Buffer {
  const content = Buffer.from(entry.content ?? "");
  const header = Buffer.alloc(BLOCK_BYTES);
  Buffer.from(entry.name).copy(header, 0, 0, 100);
  header.write(octal(entry.mode ?? 0o644, 8), 100);
  header.write(octal(entry.owner ?? 0, 8), 108);
  header.write(octal(entry.owner ?? 0, 8), 116);
  if (typeof entry.size === "string") header.write(entry.size, 124, 12, "latin1");
  else header.write(octal(entry.size ?? content.length, 12), 124);
  header.write(octal(1_700_000_000, 12), 136);
  header.write(entry.type ?? "0", 156);
  header.write(entry.linkname ?? "", 157, 100);
  header.write(entry.magic ?? "ustar\x0000", 257, 8, "latin1");
  header.write(octal(entry.device?.[0] ?? 0, 8), 329);
  header.write(octal(entry.device?.[1] ?? 0, 8), 337);
  header.write(entry.prefix ?? "", 345, 155);
  header.fill(" ", 148, 156);
  header.write(
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      8,
    ),
    148,
  );
  entry.damage?.(header);
  const padding = Buffer.alloc((BLOCK_BYTES - (content.length % BLOCK_BYTES)) % BLOCK_BYTES, NUL);
  return Buffer.concat([header, content, padding]);
}

function octal(value: number, width: number): string {
  return `${value.toString(8).padStart(width - 1, "0")}\0`;
}
