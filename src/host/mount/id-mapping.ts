/**
 * How owners on a disk become owners on the machine: by a user namespace that is given to a mount. Called on the
 * worker's thread.
 */
import { Fault } from "../../contract/fault.ts";
import { HOST_ID_FIRST, HOST_ROOT_ON_DISK, ID_COUNT, type IdForm } from "../system/id-range.ts";
import { type IdLine, withUserNamespace } from "../system/user-namespace.ts";

/** Whether owners in this form are those of this range as they are. */
export function isMappedAlready(form: IdForm, first: number | undefined): boolean {
  return form === "shifted" && (first === undefined || first === HOST_ID_FIRST);
}

/**
 * Hands over a table by which ids that are written in this form become those from `first` on. Fault 422 when this
 * machine maps none.
 */
export function withMapping<Result>(form: IdForm, first: number | undefined, use: (users: number) => Result): Result {
  if (first === undefined) throw cannotMap();
  return withUserNamespace(tableOf(form, first), use);
}

/** The same for folders in which nothing is the machine's own. */
export function withTenantsMapping<Result>(form: IdForm, first: number, use: (users: number) => Result): Result {
  return withUserNamespace([tenantsLine(form, first)], use);
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
