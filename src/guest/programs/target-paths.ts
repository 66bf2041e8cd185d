/** Resolves paths, owners and modes of a COPY request inside the sandbox. */
import { lstatSync, realpathSync, statSync } from "node:fs";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { PATH_MAX_BYTES } from "../limits.ts";
import { quote } from "../system/quote.ts";
import { type Account, Accounts } from "../users/accounts.ts";
import type { Ownership } from "./held-folders.ts";

/** An existing folder, with symbolic links of the image resolved, and the folders to create below it. */
export interface Place {
  root: string;
  missing: string[];
}

/** Makes a path absolute and resolves "." and ".." lexically, without following links. */
export function absolutePath(path: string, workdir: string): string {
  if (path.includes("\0") || Buffer.byteLength(path) > PATH_MAX_BYTES) {
    throw new Fault(400, `${quote(path)} cannot be a path`);
  }
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${workdir}/${path}`).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** Follows symbolic links of the image as far as the path exists. */
export function resolvePlace(path: string): Place {
  const parts = path.split("/").filter((part) => part !== "");
  for (let there = parts.length; ; there--) {
    const begin = `/${parts.slice(0, there).join("/")}`;
    try {
      return { root: realpathSync(begin), missing: parts.slice(there) };
    } catch (cause) {
      const code = systemCode(cause);
      if (code !== "ENOENT" || there === 0)
        throw new Fault(400, `${quote(begin)} cannot be reached (${code})`, { cause });
      if (lstatSync(begin, { throwIfNoEntry: false }) !== undefined) {
        throw new Fault(400, `${quote(begin)} is a symbolic link that leads nowhere`, { cause });
      }
    }
  }
}

export function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

export function requireAccount(name: string, accounts = new Accounts()): Account {
  const account = accounts.find(name);
  if (account === undefined) throw new Fault(400, `there is no user ${quote(name)} in this sandbox`);
  return account;
}

/** Accepts `name`, `name:group` or numbers. A name alone also selects the group of that name. */
export function ownershipOf(owner: string | null, user: string, accounts = new Accounts()): Ownership {
  if (owner === null || owner === "") {
    const { uid, gid } = requireAccount(user, accounts);
    return { uid, gid };
  }
  const [name = "", group, ...rest] = owner.split(":");
  if (name === "" || group === "" || rest.length > 0) {
    throw new Fault(400, `the owner ${quote(owner)} is neither a user nor "user:group"`);
  }
  const account = numeric(name) === undefined ? requireAccount(name, accounts) : undefined;
  const uid = numeric(name) ?? account?.uid ?? 0;
  if (group !== undefined) return { uid, gid: requireGroup(group, accounts) };
  return { uid, gid: accounts.groupId(name) ?? account?.gid ?? uid };
}

function requireGroup(group: string, accounts: Accounts): number {
  const gid = numeric(group) ?? accounts.groupId(group);
  if (gid === undefined) throw new Fault(400, `there is no group ${quote(group)} in this sandbox`);
  return gid;
}

const ID_MAX = 65_535;

function numeric(text: string): number | undefined {
  if (!/^\d+$/.test(text)) return undefined;
  const id = Number(text);
  if (id > ID_MAX) throw new Fault(400, `the id ${quote(text)} is beyond ${ID_MAX}, the last that a sandbox has`);
  return id;
}

/** Octal, like chmod. */
export function parseMode(mode: string | null): number | undefined {
  if (mode === null || mode === "") return undefined;
  if (!/^[0-7]{1,5}$/.test(mode) || Number.parseInt(mode, 8) > 0o7777) {
    throw new Fault(400, `the mode ${quote(mode)} is not an octal number such as 0755`);
  }
  return Number.parseInt(mode, 8);
}
