import { FFIType, ptr } from "bun:ffi";
import { expect, test } from "bun:test";
import { Fault } from "../contract/fault.ts";
import { callResult, cString, errorNumber, onFirstUse, SystemError } from "./c-library.ts";

const ENOENT = 2;
const EBADF = 9;
const library = onFirstUse({
  rmdir: { args: ["ptr"], returns: "int" },
  close: { args: ["int"], returns: "int" },
  strlen: { args: ["ptr"], returns: FFIType.u64_fast },
});

test("a function of the C library is called", () => {
  expect(Number(library().strlen(ptr(cString("häuser"))))).toBe(7);
  expect(Number(library().strlen(ptr(cString("häuser", "latin1"))))).toBe(6);
});

test("each failed call has its own errno", () => {
  const nowhere = cString("/no/such/folder");
  expect(library().rmdir(ptr(nowhere))).toBe(-1);
  expect(errorNumber()).toBe(ENOENT);
  expect(library().close(-1)).toBe(-1);
  expect(errorNumber()).toBe(EBADF);
});

test("the error has the fields of node:fs errors", () => {
  const nowhere = cString("/no/such/folder");
  const result = callResult("removing a folder", () => library().rmdir(ptr(nowhere)));
  expect(result).toBeInstanceOf(SystemError);
  expect(result).toMatchObject({ code: "ENOENT", message: "removing a folder failed with ENOENT" });
});

test("the first call of a program has its errno, too", () => {
  const source = `
    import { ptr } from "bun:ffi";
    import { cString, errorNumber, onFirstUse } from ${JSON.stringify(`${import.meta.dir}/c-library.ts`)};
    const library = onFirstUse({ rmdir: { args: ["ptr"], returns: "int" } });
    console.log(library().rmdir(ptr(cString("/no/such/folder"))), errorNumber());
  `;
  expect(Bun.spawnSync([process.execPath, "-e", source]).stdout.toString()).toBe(`-1 ${ENOENT}\n`);
});

test("a string with a NUL byte is rejected", () => {
  expect(() => cString("a\0b")).toThrow(Fault);
});

test("a missing function is an error with the library names that were tried", () => {
  const missing = onFirstUse({ no_such_function: { args: [], returns: "int" } });
  expect(missing).toThrow(/libc\.so\.6, libc\.musl-/);
});
