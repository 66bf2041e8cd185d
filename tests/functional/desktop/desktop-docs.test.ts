/** The examples in docs/desktop.md do what the page says, word for word. */
import { expect, test } from "bun:test";
import { printedBy, typeScriptIn } from "../../support/programs/example.ts";
import { desktopServer } from "../../support/screen/desktop.ts";

const server = desktopServer();
const [example = "", , stream = ""] = typeScriptIn("docs/desktop.md");

test("the first example prints what the page says", async () => {
  expect(await printedBy(example, server())).toBe("Hello - Chromium {\n  x: 400,\n  y: 300,\n} true\n");
});

test("the example of a stream without TLS serves noVNC", async () => {
  const program = `
    import { Sandbox } from "@e2b/desktop";
    const desktop = await Sandbox.create();
    ${stream}
    const page = await fetch(url);
    console.log(page.status, (await page.text()).includes("noVNC"));
    await desktop.kill();`;
  expect(await printedBy(program, server())).toBe("200 true\n");
});
