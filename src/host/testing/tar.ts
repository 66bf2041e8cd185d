/** Tar archives as layers of images, valid and hostile: entries are written exactly as given. */
import { pax, type RawEntry, tar as tarOfRaw } from "../../base/testing/raw-tar.ts";

export interface TarEntry extends Pick<RawEntry, "content" | "mode" | "owner" | "device"> {
  name: string;
  kind?: keyof typeof KINDS;
  /** For symbolic and hard links. */
  target?: string;
  xattrs?: Readonly<Record<string, string>>;
  /** The size in the header, instead of the content's own. */
  claimedSize?: number;
}

const KINDS = { file: "0", hardlink: "1", symlink: "2", character: "3", block: "4", folder: "5", fifo: "6" } as const;
const NAME_MAX = 100;

export function tar(entries: readonly TarEntry[]): Uint8Array<ArrayBuffer> {
  return tarOfRaw(entries.flatMap(rawEntries));
}

function rawEntries({ kind = "file", target = "", xattrs = {}, claimedSize, ...entry }: TarEntry): RawEntry[] {
  const values = Object.fromEntries(Object.entries(xattrs).map(([name, value]) => [`SCHILY.xattr.${name}`, value]));
  if (Buffer.byteLength(entry.name) > NAME_MAX) values.path = entry.name;
  if (Buffer.byteLength(target) > NAME_MAX) values.linkpath = target;
  const extra = Object.keys(values).length === 0 ? [] : [pax(values)];
  const mode = kind === "folder" ? 0o755 : 0o644;
  const size = claimedSize === undefined ? {} : { size: claimedSize };
  return [...extra, { mode, ...entry, type: KINDS[kind], linkname: target, ...size }];
}
