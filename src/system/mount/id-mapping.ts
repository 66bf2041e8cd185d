/** Maps owners on a disk to owners on the machine, with a user namespace for a mount. On the worker's thread. */
import { closeSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { HOST_ID_FIRST, HOST_ROOT_ON_DISK, ID_COUNT, type IdForm } from "../id-range.ts";
import { type IdLine, openUserNamespace } from "../user-namespace.ts";

/** Cached user namespaces: two forms for each of some ranges in use. */
export const ID_TABLES_KEPT = 128;

/** Whether owners in this form already are those of this range. */
export function isMappedAlready(form: IdForm, first: number | undefined): boolean {
  return form === "shifted" && (first === undefined || first === HOST_ID_FIRST);
}

/** Recent namespaces, most recently used last: making one takes longer than most mounts. */
const kept = new Map<string, number>();

/** Mappings of owners to ids from `first` on, one per form. */
export class IdMappings {
  constructor(readonly first: number | undefined) {}

  /** The namespace for ids in this form, for the next mount. Throws Fault 422 when this machine cannot map ids. */
  of(form: IdForm): number {
    if (this.first === undefined) throw cannotMap();
    const key = `${form} ${this.first}`;
    const users = kept.get(key) ?? openUserNamespace(tableOf(form, this.first));
    kept.delete(key);
    kept.set(key, users);
    const [oldest] = kept;
    if (kept.size > ID_TABLES_KEPT && oldest !== undefined) {
      kept.delete(oldest[0]);
      // Existing mounts keep the namespace alive.
      closeSync(oldest[1]);
    }
    return users;
  }
}

/** Uses a mapping for a folder that contains nothing of the machine's root. */
export function withTenantsMapping<Result>(form: IdForm, first: number, use: (users: number) => Result): Result {
  const users = openUserNamespace([tenantsLine(form, first)]);
  try {
    return use(users);
  } finally {
    closeSync(users);
  }
}

/** Includes the machine's root; otherwise an overlay could not make its own folders on the disk. */
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
