/**
 * Makes the root filesystem of any image what clients are promised: the account they use, the network's files, places
 * that everybody may write to. What the image has of it stays; all of it can be done again.
 */
import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { ProvisionRequest } from "../../contract/runtime/guest-programs.ts";
import { buildFile, hosts, profile } from "../../contract/runtime/image-files.ts";
import { AccountFiles } from "./account-files.ts";
import { ensureAccount, shell } from "./add-user.ts";
import { allowSudo } from "./sudo.ts";

/** Folders below /usr/local that are opened to everybody. */
const OPENED_FOLDERS_MAX = 100_000;

const BASH = "/bin/bash";
const ROOT = ["root", "x", "0", "0", "root", "/root"];

export async function provision(request: ProvisionRequest): Promise<string[]> {
  for (const folder of ["/etc", "/home", "/root", "/usr/local", "/var"]) mkdirSync(folder, { recursive: true });
  for (const folder of ["/tmp", "/var/tmp"]) makeOpen(folder, 0o1777);
  using files = await AccountFiles.lock();
  if (files.find("passwd", "root") === undefined) files.append("passwd", [...ROOT, shell()]);
  if (files.find("group", "root") === undefined) files.append("group", ["root", "x", "0", ""]);
  ensureAccount(files, request.user);
  const notes = allowSudo(request.user);
  writeNetworkFiles(request);
  writeMachineFiles(request);
  makeOpen("/code", 0o777);
  openFolders("/usr/local");
  lendBash();
  return notes;
}

/**
 * Clients run every command by this name. Where there is only another shell, that one runs it; a link would not do,
 * because busybox goes by the name that it is called by. Where there is none at all, a command says so.
 */
function lendBash(): void {
  const found = shell();
  if (existsSync(BASH) || !existsSync(found)) return;
  replace(BASH, `#!${found}\nexec ${found} "$@"\n`);
  chmodSync(BASH, 0o755);
}

function writeNetworkFiles({ hostname, address, nameserver }: ProvisionRequest): void {
  // Often a link into a resolver that does not run here.
  replace("/etc/resolv.conf", `nameserver ${nameserver}\n`);
  replace("/etc/hostname", `${hostname}\n`);
  const known = existsSync("/etc/hosts") ? readFileSync("/etc/hosts", "utf8") : "";
  const missing = hosts(hostname, address)
    .split("\n")
    .filter((line) => line !== "" && !known.split("\n").includes(line));
  if (known === "" || lstatSync("/etc/hosts").isSymbolicLink()) replace("/etc/hosts", hosts(hostname, address));
  else if (missing.length > 0)
    appendFileSync("/etc/hosts", `${known.endsWith("\n") ? "" : "\n"}${missing.join("\n")}\n`);
}

function writeMachineFiles({ build }: ProvisionRequest): void {
  // Each sandbox gets its own; an image must carry none.
  replace("/etc/machine-id", "");
  rmSync("/var/lib/dbus/machine-id", { force: true });
  if (build !== null) replace("/.e2b", buildFile(build));
  const found = shell();
  if (existsSync(found) && !existsSync("/etc/profile")) replace("/etc/profile", profile(found));
}

function makeOpen(folder: string, mode: number): void {
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, mode);
}

/** Folders alone: a file that is touched is stored once more, and whoever may write its folder can replace it. */
function openFolders(root: string): void {
  const pending = [root];
  let left = OPENED_FOLDERS_MAX;
  for (let path = pending.pop(); path !== undefined && left-- > 0; path = pending.pop()) {
    const { mode } = lstatSync(path);
    if ((mode & 0o777) !== 0o777) chmodSync(path, (mode & 0o7777) | 0o777);
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (entry.isDirectory()) pending.push(join(path, entry.name));
    }
  }
}

/** Renamed into place: whatever is there, also a link to elsewhere, is replaced and not written through. */
function replace(path: string, text: string): void {
  writeFileSync(`${path}.sandlot-new`, text, { mode: 0o644 });
  renameSync(`${path}.sandlot-new`, path);
}
