/**
 * More sandboxes than the 256 concurrent requests that Bun allows a process by default: the server holds a connection
 * to each. With SANDLOT_TEST_LONG=1 only; the short run has as many streams (many-streams.test.ts).
 */
import { describe, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { serverOfFile } from "../support/server-of-file.ts";

const COUNT = 270;
const AT_ONCE = 6;

describe.if(LONG)("beyond the connections that Bun allows by default", () => {
  const server = serverOfFile("hundreds");
  test("the last of many sandboxes works, pauses and resumes like the first", async () => {
    const options = { ...server().options, timeoutMs: 600_000 };
    const made: Sandbox[] = [];
    let begun = 0;
    const makeSome = async () => {
      while (begun++ < COUNT) made.push(await Sandbox.create(options));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, makeSome));
    expect(made).toHaveLength(COUNT);
    for (const sandbox of [made[0], made.at(-1)]) {
      expect((await sandbox?.commands.run("echo here"))?.stdout).toBe("here\n");
      await sandbox?.pause();
      await sandbox?.connect();
      expect((await sandbox?.commands.run("echo back"))?.stdout).toBe("back\n");
    }
  }, 600_000);
});
