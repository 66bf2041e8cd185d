/** Program add-user (USER in a Dockerfile): creates an account with home and shell without any program of the image. */
import { cpSync, existsSync, lchownSync, lstatSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import type { AddUserRequest } from "../../contract/runtime/guest-programs.ts";
import { quote } from "../system/quote.ts";
import { AccountFiles } from "./account-files.ts";
import { allowSudo } from "./sudo.ts";

/** Names that the tools of all distributions accept: no character with a meaning in account files or paths. */
const NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,31}$/;
const NUMBER = /^\d{1,5}$/;
const IDS = { first: 1000, last: 59_999 };
const SHELLS = ["/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh"];
const NO_SHELL = "/sbin/nologin";
const MS_PER_DAY = 86_400_000;

export async function addUser(request: AddUserRequest): Promise<string[]> {
  using files = await AccountFiles.lock();
  const [name = "", group, ...rest] = request.name.split(":");
  // More than one colon is not user:group; the whole text then fails the name check.
  const user = rest.length > 0 ? request.name : name;
  const account = NUMBER.test(user) ? nameOf(files, user) : ensureAccount(files, user);
  if (group !== undefined) requireOwnGroup(files, account, group);
  return [...(request.sudo ? allowSudo(account) : []), account];
}

/** A Dockerfile may name a group by name or number. Processes always run with the group of their account. */
function requireOwnGroup(files: AccountFiles, account: string, group: string): void {
  const own = files.find("passwd", account)?.[3] ?? "0";
  if (group === own || files.find("group", group)?.[2] === own) return;
  throw new Fault(400, `${quote(group)} is not the group of ${account}, and processes have that: leave it out`);
}

/** A Dockerfile may name a user by number, but a process is started for an account name. */
function nameOf(files: AccountFiles, id: string): string {
  const found = files.read("passwd")?.find((fields) => fields[2] === id)?.[0];
  if (found !== undefined) return found;
  if (id === "0") return "root";
  throw new Fault(400, `no account has the user id ${id}: add one first, or name a user to be added`);
}

/** Returns the account's name. An existing account stays unchanged, except that a missing home is created. */
export function ensureAccount(files: AccountFiles, name: string): string {
  if (!NAME.test(name)) {
    const rule = "up to 32 of A-Z, a-z, 0-9, _, . and -, the first a letter or _";
    throw new Fault(400, `${quote(name)} cannot be the name of a user: it must be ${rule}`);
  }
  const known = files.find("passwd", name);
  if (known !== undefined) {
    makeHome(known[5] ?? "", Number(known[2]), Number(known[3]));
    return name;
  }
  const group = files.find("group", name)?.[2];
  const id = files.freeId(IDS.first, IDS.last);
  const gid = group ?? String(id);
  const home = `/home/${name}`;
  const hasShadow = files.read("shadow") !== undefined;
  // An empty password rather than a locked one, so that su works for users that may run it.
  if (hasShadow) files.append("shadow", [name, "", today(), "0", "99999", "7", "", "", ""]);
  if (group === undefined) {
    files.append("group", [name, hasShadow ? "x" : "", gid, ""]);
    if (files.read("gshadow") !== undefined) files.append("gshadow", [name, "!", "", ""]);
  }
  // passwd is written last: a program that finds the account finds all of its other records.
  files.append("passwd", [name, hasShadow ? "x" : "", String(id), gid, "", home, shell()]);
  makeHome(home, id, Number(gid));
  return name;
}

export function shell(): string {
  return SHELLS.find((path) => existsSync(path)) ?? NO_SHELL;
}

function today(): string {
  return String(Math.floor(Date.now() / MS_PER_DAY));
}

/** Creates a home from the image's /etc/skel. An existing home stays unchanged. */
function makeHome(home: string, uid: number, gid: number): void {
  if (!home.startsWith("/") || home === "/" || lstatSync(home, { throwIfNoEntry: false }) !== undefined) return;
  mkdirSync(home, { recursive: true, mode: 0o755 });
  if (statSync("/etc/skel", { throwIfNoEntry: false })?.isDirectory()) {
    cpSync("/etc/skel", home, { recursive: true, verbatimSymlinks: true });
  }
  const pending = [home];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    lchownSync(path, uid, gid);
    if (lstatSync(path).isDirectory()) for (const name of readdirSync(path)) pending.push(join(path, name));
  }
}
