/** A desktop keeps its windows through pause, resume and copies. */
import { expect, test } from "bun:test";
import { Sandbox } from "@e2b/desktop";
import {
  currentTitle,
  desktopOfFile,
  desktopServer,
  isWindowIn,
  openColouredWindow,
  pictureOf,
} from "../../support/screen/desktop.ts";
import { until } from "../../support/until.ts";

const COLOUR = "#2244cc";

const server = desktopServer();
const desktop = desktopOfFile(server);

test("windows, programs, the pointer and the stream continue after a pause", async () => {
  await openColouredWindow(desktop(), { colour: COLOUR, title: "blue" });
  await desktop().files.write("/home/user/page.html", `<title>kept</title><body style="background:#8a1c62">`);
  await desktop().launch("google-chrome", "file:///home/user/page.html");
  await until("the browser has the page", async () => (await currentTitle(desktop())) === "kept - Chromium");
  await until("the page is drawn", async () => (await pictureOf(desktop())).count("#8a1c62") > 100_000);
  await desktop().stream.start();
  await desktop().moveMouse(333, 222);

  await desktop().pause();
  await desktop().connect();

  expect(await desktop().getCursorPosition()).toEqual({ x: 333, y: 222 });
  expect((await pictureOf(desktop())).count("#8a1c62")).toBeGreaterThan(100_000);
  expect((await desktop().commands.run("curl -s http://localhost:6080/vnc.html")).stdout).toContain("noVNC");
  // The desktop still draws changes and accepts keys.
  await desktop().press(["alt", "f4"]);
  await until("the window below is seen again", async () => isWindowIn(await pictureOf(desktop()), COLOUR));
});

test("a copy starts with the windows of its original and changes independently", async () => {
  const [copy] = await desktop().fork({ timeoutMs: 600_000 });
  if (!(copy instanceof Sandbox)) throw new Error("there is no copy", { cause: copy });
  expect(isWindowIn(await pictureOf(copy), COLOUR)).toBe(true);
  await copy.commands.run("pkill -x xmessage");
  await until("the copy has lost it", async () => (await pictureOf(copy)).count(COLOUR) === 0);
  expect(isWindowIn(await pictureOf(desktop()), COLOUR)).toBe(true);
});
