import { CString, FFIType, type Pointer } from "bun:ffi";
import { expect, test } from "bun:test";
import { Fault } from "../contract/fault.ts";
import { callResult, cString, errorNumber, onFirstUse, pointerTo, SystemError } from "./c-library.ts";

const ENOENT = 2;
const EBADF = 9;
const library = onFirstUse({
  rmdir: { args: ["ptr"], returns: "int" },
  close: { args: ["int"], returns: "int" },
  strlen: { args: ["ptr"], returns: FFIType.u64_fast },
});

test("a function of the C library is called", () => {
  expect(Number(library().strlen(pointerTo(cString("häuser"))))).toBe(7);
  expect(Number(library().strlen(pointerTo(cString("häuser", "latin1"))))).toBe(6);
});

test("each failed call has its own errno", () => {
  const nowhere = cString("/no/such/folder");
  expect(library().rmdir(pointerTo(nowhere))).toBe(-1);
  expect(errorNumber()).toBe(ENOENT);
  expect(library().close(-1)).toBe(-1);
  expect(errorNumber()).toBe(EBADF);
});

test("the error has the fields of node:fs errors", () => {
  const nowhere = cString("/no/such/folder");
  const result = callResult("removing a folder", () => library().rmdir(pointerTo(nowhere)));
  expect(result).toBeInstanceOf(SystemError);
  expect(result).toMatchObject({ code: "ENOENT", message: "removing a folder failed with ENOENT" });
});

test("the first call of a program has its errno, too", () => {
  const source = `
    import { pointerTo, cString, errorNumber, onFirstUse } from ${JSON.stringify(`${import.meta.dir}/c-library.ts`)};
    const library = onFirstUse({ rmdir: { args: ["ptr"], returns: "int" } });
    console.log(library().rmdir(pointerTo(cString("/no/such/folder"))), errorNumber());
  `;
  expect(Bun.spawnSync([process.execPath, "-e", source]).stdout.toString()).toBe(`-1 ${ENOENT}\n`);
});

// Guards against paths that were freed before the kernel read them: a resume failed with ENOENT.
test("a buffer that is not used after its call is there during the call, whatever is collected before", () => {
  const path = "/a/path/that/is/long/enough/to/have/memory/of/its/own";
  const others: Buffer[] = [];
  let calls = 0;
  const collectSometimes = () => {
    if (++calls % 500 !== 0) return;
    Bun.gc(true);
    for (let number = 0; number < 200; number++) others.push(cString(path.replaceAll(/[a-z]/g, String(number % 10))));
  };
  const readBack = (address: Pointer) => {
    collectSometimes();
    return new CString(address).toString();
  };
  const visit = (text: string) => readBack(pointerTo(cString(text)));
  const seen = new Set<string>();
  // Many, so that it is compiled: compiled code keeps nothing that it needs no more.
  for (let call = 0; call < 10_000; call++) seen.add(visit(path));
  expect([...seen]).toEqual([path]);
});

test("a string with a NUL byte is rejected", () => {
  expect(() => cString("a\0b")).toThrow(Fault);
});

test("a missing function is an error with the library names that were tried", () => {
  const missing = onFirstUse({ no_such_function: { args: [], returns: "int" } });
  expect(missing).toThrow(/libc\.so\.6, libc\.musl-/);
});
