import { expect, test } from "bun:test";
import { endEvent } from "./outcome.ts";

test.each([
  [0, null, { exitCode: 0, exited: true, status: "exit status 0" }],
  [1, null, { exitCode: 1, exited: true, status: "exit status 1", error: "exit status 1" }],
  [137, null, { exitCode: 137, exited: true, status: "exit status 137", error: "exit status 137" }],
  [null, "SIGKILL", { exitCode: -1, exited: false, status: "signal: killed", error: "signal: killed" }],
  [null, "SIGTERM", { exitCode: -1, exited: false, status: "signal: terminated", error: "signal: terminated" }],
  [
    null,
    "SIGSEGV",
    { exitCode: -1, exited: false, status: "signal: segmentation fault", error: "signal: segmentation fault" },
  ],
  [null, 34, { exitCode: -1, exited: false, status: "signal: signal 34", error: "signal: signal 34" }],
])("exit code %p and signal %p", (code, signal, event) => {
  expect(endEvent(code, signal)).toEqual(event);
});
