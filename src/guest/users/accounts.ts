/**
 * Users and groups of the sandbox, parsed from its /etc/passwd and /etc/group. libc's name service is not used, because
 * the image may be of any distribution or none. Files are read again only after a change.
 */
import { readFileSync, statSync } from "node:fs";
import { systemCode } from "../../base/system-code.ts";

const NO_ID = 2 ** 32 - 1;

export interface Account {
  name: string;
  uid: number;
  gid: number;
  home: string;
  /** All groups of the user, including the primary one. */
  groups: number[];
}

interface Group {
  name: string;
  gid: number;
  members: string[];
}

/** A text file that is parsed again when its identity, size or change time differs. */
class ParsedFile<T> {
  #version = "";
  #value: T | undefined;

  constructor(
    private readonly path: string,
    private readonly parse: (text: string) => T,
  ) {}

  read(): T {
    const version = this.#currentVersion();
    if (this.#value === undefined || version !== this.#version) {
      this.#value = this.parse(version === "" ? "" : readFileSync(this.path, "utf8"));
      this.#version = version;
    }
    return this.#value;
  }

  #currentVersion(): string {
    try {
      const stat = statSync(this.path, { bigint: true });
      return `${stat.dev}:${stat.ino}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
    } catch (thrown) {
      if (systemCode(thrown) === "ENOENT") return "";
      throw thrown;
    }
  }
}

export class Accounts {
  readonly #passwd: ParsedFile<Omit<Account, "groups">[]>;
  readonly #group: ParsedFile<Group[]>;

  constructor(etc = "/etc") {
    this.#passwd = new ParsedFile(`${etc}/passwd`, parsePasswd);
    this.#group = new ParsedFile(`${etc}/group`, parseGroup);
  }

  find(name: string): Account | undefined {
    const entry = this.#passwd.read().find((candidate) => candidate.name === name) ?? builtIn(name);
    if (entry === undefined) return undefined;
    const extra = this.#group.read().filter((group) => group.members.includes(name));
    return { ...entry, groups: [...new Set([entry.gid, ...extra.map((group) => group.gid)])] };
  }

  /** The name of a user id, or the number itself if it has no account. */
  userName(uid: number): string {
    return this.#passwd.read().find((entry) => entry.uid === uid)?.name ?? String(uid);
  }

  groupId(name: string): number | undefined {
    return this.#group.read().find((entry) => entry.name === name)?.gid;
  }

  groupName(gid: number): string {
    return this.#group.read().find((entry) => entry.gid === gid)?.name ?? String(gid);
  }
}

/** Root exists in every sandbox, even in an image without a passwd file. */
function builtIn(name: string): Omit<Account, "groups"> | undefined {
  return name === "root" ? { name, uid: 0, gid: 0, home: "/root" } : undefined;
}

function parsePasswd(text: string): Omit<Account, "groups">[] {
  return records(text).flatMap(([name, , uid, gid, , home]) => {
    const ids = { uid: parseId(uid), gid: parseId(gid) };
    if (!name || ids.uid === undefined || ids.gid === undefined) return [];
    return [{ name, uid: ids.uid, gid: ids.gid, home: home || "/" }];
  });
}

function parseGroup(text: string): Group[] {
  return records(text).flatMap(([name, , gid, members]) => {
    const id = parseId(gid);
    return name && id !== undefined ? [{ name, gid: id, members: (members ?? "").split(",") }] : [];
  });
}

function records(text: string): string[][] {
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.split(":"));
}

/** Kernel ids have 32 bits and the last value means none; a larger number would wrap to another user's id. */
function parseId(text: string | undefined): number | undefined {
  const id = text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : NO_ID;
  return id < NO_ID ? id : undefined;
}
