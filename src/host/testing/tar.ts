/** Tar archives for tests, valid and hostile: entries are written exactly as given. */

export interface TarEntry {
  name: string;
  kind?: "file" | "folder" | "symlink" | "hardlink" | "character" | "block" | "fifo";
  content?: string | Uint8Array;
  /** For symbolic and hard links. */
  target?: string;
  mode?: number;
  owner?: number;
  xattrs?: Readonly<Record<string, string>>;
  /** The size in the header, instead of the content's own. */
  claimedSize?: number;
  device?: readonly [major: number, minor: number];
}

const KINDS = { file: "0", hardlink: "1", symlink: "2", character: "3", block: "4", folder: "5", fifo: "6" } as const;
const BLOCK = 512;
const NAME_MAX = 100;

export function tar(entries: readonly TarEntry[]): Uint8Array<ArrayBuffer> {
  return Buffer.concat([...entries.flatMap(blocksOf), Buffer.alloc(2 * BLOCK)]);
}

function blocksOf(entry: TarEntry): Buffer[] {
  const pax: Record<string, string> = {};
  if (Buffer.byteLength(entry.name) > NAME_MAX) pax.path = entry.name;
  if (Buffer.byteLength(entry.target ?? "") > NAME_MAX) pax.linkpath = entry.target ?? "";
  for (const [name, value] of Object.entries(entry.xattrs ?? {})) pax[`SCHILY.xattr.${name}`] = value;
  const extra = Object.entries(pax).map(paxRecord).join("");
  const content = Buffer.from(entry.content ?? "");
  return [
    ...(extra === "" ? [] : [header({ name: "pax" }, "x", Buffer.byteLength(extra)), padded(Buffer.from(extra))]),
    header(entry, KINDS[entry.kind ?? "file"], entry.claimedSize ?? content.length),
    padded(content),
  ];
}

/** The record's length includes its own digits. */
function paxRecord([key, value]: [string, string]): string {
  const rest = ` ${key}=${value}\n`;
  const bytes = Buffer.byteLength(rest);
  let length = bytes + String(bytes).length;
  if (bytes + String(length).length !== length) length = bytes + String(length).length;
  return `${length}${rest}`;
}

function header(entry: TarEntry, kind: string, size: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const text = (at: number, length: number, value: string) => void block.write(value, at, length);
  const octal = (at: number, length: number, value: number) =>
    text(at, length, `${value.toString(8).padStart(length - 1, "0")}\0`);
  text(0, NAME_MAX, entry.name);
  octal(100, 8, entry.mode ?? (kind === "5" ? 0o755 : 0o644));
  octal(108, 8, entry.owner ?? 0);
  octal(116, 8, entry.owner ?? 0);
  octal(124, 12, size);
  octal(136, 12, 1_700_000_000);
  text(148, 8, "        ");
  text(156, 1, kind);
  text(157, NAME_MAX, entry.target ?? "");
  text(257, 8, "ustar\x0000");
  octal(329, 8, entry.device?.[0] ?? 0);
  octal(337, 8, entry.device?.[1] ?? 0);
  octal(
    148,
    7,
    block.reduce((sum, byte) => sum + byte, 0),
  );
  return block;
}

function padded(content: Buffer): Buffer {
  return Buffer.concat([content, Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)]);
}
