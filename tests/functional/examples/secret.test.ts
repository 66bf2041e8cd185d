import { expect, test } from "bun:test";
import { runExample } from "../../support/programs/example.ts";
import { leftOn, sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();

test("examples/secret.mjs shows the keys that the site received", async () => {
  expect(await runExample("secret.mjs", server())).toEqual([
    "the site received first-key",
    "after an update it received second-key",
    "a process of the sandbox has it: false",
  ]);
  expect((await leftOn(server())).sandboxes).toEqual([]);
});
