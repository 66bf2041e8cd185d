import { expect, test } from "bun:test";
import { socketsFinding } from "./kernel-checks.ts";

test("a kernel without SOCK_DESTROY is degraded, and does not stop the start", () => {
  expect(socketsFinding(true).status).toBe("ok");
  const { status, detail } = socketsFinding(false);
  expect(status).toBe("degraded");
  expect(detail).toContain("CONFIG_INET_DIAG_DESTROY");
});
