import { expect, test } from "bun:test";
import { runExample } from "../../support/programs/example.ts";
import { leftOn, sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();

test("examples/web-app.mjs serves a page, then the changed page", async () => {
  const [preview, ...seen] = await runExample("web-app.mjs", server());
  expect(preview).toMatch(/^preview: http:\/\/8000-[a-z0-9]+\.sandlot\.localhost:\d+\/$/);
  expect(seen).toEqual(["seen: First draft", "seen: Second draft"]);
  expect((await leftOn(server())).sandboxes).toEqual([]);
});
