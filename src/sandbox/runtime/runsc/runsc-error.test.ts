import { expect, test } from "bun:test";
import { Fault } from "../../../contract/fault.ts";
import { explain } from "./runsc-error.ts";

const textOf = (text: string) => new Fault(500, `runsc checkpoint ended with 128: checkpoint failed: ${text}`);

test.each([
  [
    "an open file that was deleted, by its name",
    textOf(
      'checkpointing container "i1": encoding error: gofer.dentry("home/user/gone").beforeSave: deleted and ' +
        "invalidated dentries can't be restored:\ngoroutine 345 [running]:\nmore",
    ),
    422,
    '"/home/user/gone" open, which was deleted',
  ],
  ["a full disk", textOf("writing: no space left on device"), 507, "no space"],
  ["anything else, in one line", textOf("encoding error: no\ngoroutine 1"), 422, "encoding error: no. memory: false"],
  ["an error with a status, unchanged", new Fault(507, "there is no room"), 507, "there is no room"],
])("the error has %s", (_what, cause, status, words) => {
  const fault = explain(cause);
  expect(fault.status).toBe(status);
  expect(fault.message).toContain(words);
  expect(fault.message).not.toContain("goroutine");
});
