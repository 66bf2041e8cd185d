/**
 * How owners on a disk become owners on the machine: by a user namespace that is given to a mount. Called on the
 * worker's thread.
 */
import { closeSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { HOST_ID_FIRST, HOST_ROOT_ON_DISK, ID_COUNT, type IdForm } from "../id-range.ts";
import { type IdLine, openUserNamespace } from "../user-namespace.ts";

/** Tables of ids that are kept for the next mount with the same: two forms for each of some ranges that are in use. */
export const ID_TABLES_KEPT = 128;

/** Whether owners in this form are those of this range as they are. */
export function isMappedAlready(form: IdForm, first: number | undefined): boolean {
  return form === "shifted" && (first === undefined || first === HOST_ID_FIRST);
}

/**
 * Tables that were made lately, by form and range, the one that was used last at the end. To make one takes longer than
 * most mounts, each sandbox has several mounts, and ranges are used again and again.
 */
const kept = new Map<string, number>();

/** Tables by which owners become those from `first` on, one for each form. */
export class IdMappings {
  constructor(readonly first: number | undefined) {}

  /** Of ids that are written in this form, for the next mount. Fault 422 when this machine maps none. */
  of(form: IdForm): number {
    if (this.first === undefined) throw cannotMap();
    const key = `${form} ${this.first}`;
    const users = kept.get(key) ?? openUserNamespace(tableOf(form, this.first));
    kept.delete(key);
    kept.set(key, users);
    const [oldest] = kept;
    if (kept.size > ID_TABLES_KEPT && oldest !== undefined) {
      kept.delete(oldest[0]);
      // What was mounted with it keeps it.
      closeSync(oldest[1]);
    }
    return users;
  }
}

/** The same for a folder in which nothing is the machine's own. */
export function withTenantsMapping<Result>(form: IdForm, first: number, use: (users: number) => Result): Result {
  const users = openUserNamespace([tenantsLine(form, first)]);
  try {
    return use(users);
  } finally {
    closeSync(users);
  }
}

/** Without the machine's root among them an overlay could not make its own folders on the disk. */
export function tableOf(form: IdForm, first: number): IdLine[] {
  return [tenantsLine(form, first), { inside: form === "plain" ? HOST_ROOT_ON_DISK : 0, outside: 0, count: 1 }];
}

function tenantsLine(form: IdForm, first: number): IdLine {
  return { inside: form === "plain" ? 0 : HOST_ID_FIRST, outside: first, count: ID_COUNT };
}

function cannotMap(): Fault {
  return new Fault(
    422,
    "the files of this sandbox were written by a machine that maps their owners, which this one cannot. " +
      "FIX: run it on Linux 5.19 or later",
  );
}
