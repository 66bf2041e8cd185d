/** The example in docs/volumes.md does what the page says, word for word. */
import { expect, test } from "bun:test";
import { printedBy, typeScriptIn } from "../../support/programs/example.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const [example = ""] = typeScriptIn("docs/volumes.md");

test("the example prints what the page says", async () => {
  expect(await printedBy(example, server())).toBe("1\n2\n3\n\n");
});
