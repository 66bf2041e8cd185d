/** How tar packs the file trees of tenants, with holes, links and every attribute, and unpacks them as they were. */

/** Sorted names, numeric owners and one header format: two archives of the same files then differ little. */
const TAR = ["tar", "--create", "--format=posix", "--sparse", "--sort=name", "--numeric-owner", "--one-file-system"];
const ATTRIBUTES = ["--acls", "--xattrs", "--xattrs-include=*"];
/** Owners by number, and every attribute, as they were. */
const UNTAR = ["tar", "--extract", "--sparse", "--numeric-owner", "--same-owner", "--preserve-permissions"];

/**
 * Options for archives of equal trees to be equal, byte for byte. Otherwise headers have the times of the last read and
 * of the last change of attributes; and names of headers, also of files with holes, have the pid of tar.
 */
export const REPEATABLE: readonly string[] = [
  "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
  "--sparse-version=0.0",
];

/** Packs these names of a folder, to standard output unless `options` name a file. */
export function packing(folder: string, names: readonly string[], options: readonly string[] = []): string[] {
  return [...TAR, ...ATTRIBUTES, ...options, `--directory=${folder}`, "--", ...names];
}

/** Unpacks into a folder, from standard input unless `options` name a file. */
export function unpacking(folder: string, options: readonly string[] = []): string[] {
  return [...UNTAR, ...ATTRIBUTES, ...options, `--directory=${folder}`];
}
