/** ADD of a URL: a command that fetches it inside the build, with the network and isolation of the build's sandbox. */
import { shellQuoted } from "../../base/shell-text.ts";
import { quoted } from "../../contract/quoted-text.ts";
import { faultAt } from "./dockerfile-fault.ts";

interface AddedUrl {
  url: string;
  /** With a trailing slash: a folder, where the file gets the last part of the URL as its name. */
  target: string;
  owner: string | null;
  mode: string | null;
  /** SHA-256 in hex. */
  checksum: string | null;
}

const NO_FETCHER = "ADD of a URL needs curl or wget in the image; install one of them with RUN before it";
/** The mode that Docker's ADD sets without --chmod. */
const MODE = "600";

export function isUrl(source: string): boolean {
  return /^https?:\/\//i.test(source);
}

export function fetchCommand({ url, target, owner, mode, checksum }: AddedUrl, line: number): string {
  const file = shellQuoted(target.endsWith("/") ? target + lastPartOf(url, line) : target);
  const from = shellQuoted(url);
  const lines = [
    "set -e",
    `file=${file}`,
    'mkdir -p -- "$(dirname -- "$file")"',
    `if command -v curl >/dev/null 2>&1; then curl -fsSL -o "$file" -- ${from}`,
    `elif command -v wget >/dev/null 2>&1; then wget -q -O "$file" -- ${from}`,
    `else echo ${shellQuoted(NO_FETCHER)} >&2; exit 1; fi`,
  ];
  if (checksum !== null) lines.push(`echo "${checksum}  $file" | sha256sum -c - >/dev/null`);
  lines.push(`chown -- ${shellQuoted(owner ?? "0:0")} "$file"`, `chmod -- ${shellQuoted(mode ?? MODE)} "$file"`);
  return lines.join("\n");
}

function lastPartOf(url: string, line: number): string {
  let name: string;
  try {
    name = decodeURIComponent(new URL(url).pathname.split("/").at(-1) ?? "");
  } catch {
    throw faultAt(line, `${quoted(url)} is no URL`);
  }
  if (name === "" || name === "." || name === ".." || name.includes("/") || name.includes("\0")) {
    throw faultAt(line, `${quoted(url)} does not end in the name of a file; write one after the folder`);
  }
  return name;
}
