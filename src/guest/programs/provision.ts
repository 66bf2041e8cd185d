/**
 * Program provision: adds to the root filesystem of any image what clients rely on: the user account, the network files
 * and world-writable folders. Existing parts of the image stay, and running it again is safe.
 */
import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import type { ProvisionRequest } from "../../contract/runtime/guest-programs.ts";
import { buildFile, hosts, profile } from "../../contract/runtime/image-files.ts";
import { AccountFiles } from "./account-files.ts";
import { ensureAccount, shell } from "./add-user.ts";
import { allowSudo, replace } from "./sudo.ts";

/** Maximum number of folders below /usr/local that become world-writable. */
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
  addBashScript();
  return notes;
}

/**
 * SDKs run every command with /bin/bash. In an image that only has another shell, a script passes commands to that
 * shell. A link would not work, because busybox acts by the name it is called with. In an image without any shell,
 * commands fail with a message that says so.
 */
function addBashScript(): void {
  const found = shell();
  if (existsSync(BASH) || !existsSync(found)) return;
  replace(BASH, `#!${found}\nexec ${found} "$@"\n`);
  chmodSync(BASH, 0o755);
}

function writeNetworkFiles({ hostname, address, nameserver }: ProvisionRequest): void {
  // Often a link to a resolver that does not run in the sandbox.
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
  // Each sandbox gets its own machine id, so an image must not carry one.
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

/** Changes folders only, which suffices to replace a file; changing a file would store it again. */
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
