import { expect, test } from "bun:test";
import { runExample } from "../../support/programs/example.ts";
import { desktopServer } from "../../support/screen/desktop.ts";

const server = desktopServer();

test("examples/browser-task.mjs fills in a form of a page, with mouse and keyboard", async () => {
  const output = await runExample("browser-task.mjs", server());
  expect(output).toEqual(["seen: Order", "seen: Thank you, Ada", "screenshot: 1024 × 768"]);
});
