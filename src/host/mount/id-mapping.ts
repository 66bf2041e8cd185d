/**
 * How owners on a disk become owners on the machine: by a user namespace that is given to a mount. Called on the
 * worker's thread.
 */
import { closeSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { HOST_ID_FIRST, HOST_ROOT_ON_DISK, ID_COUNT, type IdForm } from "../system/id-range.ts";
import { type IdLine, openUserNamespace } from "../system/user-namespace.ts";

/** Whether owners in this form are those of this range as they are. */
export function isMappedAlready(form: IdForm, first: number | undefined): boolean {
  return form === "shifted" && (first === undefined || first === HOST_ID_FIRST);
}

/** Tables by which owners become those from `first` on, one for each form, for mounts that are made together. */
export class IdMappings implements Disposable {
  readonly #open = new Map<IdForm, number>();

  constructor(readonly first: number | undefined) {}

  /** Of ids that are written in this form. Fault 422 when this machine maps none. */
  of(form: IdForm): number {
    if (this.first === undefined) throw cannotMap();
    const users = this.#open.get(form) ?? openUserNamespace(tableOf(form, this.first));
    this.#open.set(form, users);
    return users;
  }

  /** What was mounted meanwhile keeps its table. */
  [Symbol.dispose](): void {
    for (const users of this.#open.values()) closeSync(users);
    this.#open.clear();
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
