/**
 * A file's mode as text, in the notation that clients expect: type letters first (a symbolic link is `L`, a sticky
 * directory `dt`, a character device `Dc`), then the nine permission letters.
 */
import { constants } from "node:fs";

const TYPE_LETTERS = new Map([
  [constants.S_IFDIR, "d"],
  [constants.S_IFLNK, "L"],
  [constants.S_IFBLK, "D"],
  [constants.S_IFCHR, "D"],
  [constants.S_IFIFO, "p"],
  [constants.S_IFSOCK, "S"],
]);

export function permissionText(mode: number): string {
  const type = mode & constants.S_IFMT;
  const letters = [
    TYPE_LETTERS.get(type) ?? "",
    mode & 0o4000 ? "u" : "",
    mode & 0o2000 ? "g" : "",
    type === constants.S_IFCHR ? "c" : "",
    mode & 0o1000 ? "t" : "",
  ].join("");
  return (letters || "-") + permissionLetters(mode);
}

function permissionLetters(mode: number): string {
  return [..."rwxrwxrwx"].map((letter, at) => (mode & (0o400 >> at) ? letter : "-")).join("");
}
