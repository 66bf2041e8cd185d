/** The stream of a desktop as people see it: in a browser, through the server, over a WebSocket. */
import { afterEach, beforeAll, expect, test } from "bun:test";
import type { Locator, Page } from "playwright-core";
import { browserOfFile } from "../../support/screen/browser.ts";
import { desktopOfFile, desktopServer, isWindowIn, openColouredWindow } from "../../support/screen/desktop.ts";
import { refusalOf, until } from "../../support/until.ts";

const COLOUR = "#d0401b";

const server = desktopServer();
const desktop = desktopOfFile(server);
const browser = browserOfFile();
/** The errors of each page, and the state of its connection. */
const toldBy = new WeakMap<Page, string[]>();

beforeAll(async () => {
  await openColouredWindow(desktop(), { colour: COLOUR, title: "red" });
});
afterEach(async () => {
  await stop();
  for (const page of browser().pages()) await page.close();
});

test("the stream shows the screen and passes on input until it is stopped", async () => {
  await desktop().stream.start();
  const url = desktop().stream.getUrl();
  const { port } = new URL(server().url);
  const host = `6080-${desktop().sandboxId}.localhost:${port}`;
  expect(url).toBe(`https://${host}/vnc.html?autoconnect=true&resize=scale`);
  expect((await refusalOf(desktop().stream.start())).message).toBe("Stream is already running");

  const page = await open(url);
  await shown(page);
  expect(await screenOf(page)).toEqual([1024, 768]);
  await page.locator("canvas").click({ position: { x: 100, y: 50 } });
  await until("the pointer is where the page has it", async () => (await desktop().getCursorPosition()).x < 512);
});

test("a stream that was stopped starts again, and requires its key", async () => {
  await desktop().stream.start({ requireAuth: true });
  const authKey = desktop().stream.getAuthKey();
  const stranger = await open(desktop().stream.getUrl());
  await appears(stranger, stranger.locator("#noVNC_credentials_dlg.noVNC_open"));
  expect(await hasWindow(stranger)).toBe(false);
  await stranger.close();
  const wrong = await open(desktop().stream.getUrl({ authKey: "another1" }));
  await appears(wrong, wrong.locator("#noVNC_status.noVNC_open", { hasText: /failed/ }));
  expect(await hasWindow(wrong)).toBe(false);
  await wrong.close();

  const viewer = await open(desktop().stream.getUrl({ authKey, viewOnly: true }));
  await shown(viewer);
  await desktop().moveMouse(600, 400);
  await viewer.locator("canvas").click({ position: { x: 100, y: 50 } });
  // The effect of a click there would be visible before the next picture.
  await desktop().moveMouse(601, 401);
  expect(await desktop().getCursorPosition()).toEqual({ x: 601, y: 401 });
});

test("the stream may show one window, and ends on request even if its server hangs", async () => {
  const [windowId = ""] = await desktop().getApplicationWindows("xmessage");
  await desktop().stream.start({ windowId, requireAuth: false });
  const page = await open(desktop().stream.getUrl({ resize: "off" }));
  await shown(page);
  expect(await screenOf(page)).toEqual([300, 200]);
  // Simulates a server that hangs when asked to end: a stopped process handles no other signal either.
  await desktop().commands.run("pkill -STOP -f '^/usr/bin/x11vnc '");
  await stop();
});

/** The server of a test speaks no TLS. */
async function open(url: string): Promise<Page> {
  const page = await browser().newPage();
  const reported: string[] = [];
  toldBy.set(page, reported);
  page.on("console", (message) => reported.push(message.text()));
  page.on("pageerror", (error) => reported.push(String(error)));
  page.on("requestfailed", (request) => reported.push(`${request.url()}: ${request.failure()?.errorText}`));
  page.on("response", (response) => {
    if (response.status() >= 400) reported.push(`${response.url()}: ${response.status()}`);
  });
  page.on("websocket", (socket) => {
    reported.push(`${socket.url()} begins`);
    socket.on("socketerror", (error) => reported.push(`${socket.url()}: ${error}`));
    socket.on("close", () => reported.push(`${socket.url()} has ended`));
  });
  await page.goto(url.replace("https:", "http:"));
  await anewIfInterrupted(page);
  return page;
}

/**
 * A browser aborts all fetches when a network address of the machine comes or goes, as with every server that another
 * test starts. A user would reload such a page.
 */
async function anewIfInterrupted(page: Page): Promise<void> {
  const reported = toldBy.get(page) ?? [];
  while (reported.some((line) => line.includes("ERR_NETWORK_CHANGED"))) {
    reported.length = 0;
    await page.reload();
  }
}

function shown(page: Page): Promise<void> {
  return eventually(page, "the window is in the stream", () => hasWindow(page));
}

function appears(page: Page, part: Locator): Promise<void> {
  return eventually(page, `${part} is visible`, () => part.isVisible());
}

function eventually(page: Page, what: string, isSo: () => Promise<boolean>): Promise<void> {
  const reportOf = () => toldBy.get(page)?.join("; ");
  return until(
    () => `${what}; the page has told: ${reportOf()}`,
    async () => {
      await anewIfInterrupted(page);
      return await isSo();
    },
  );
}

/** Also while pages are connected. */
async function stop(): Promise<void> {
  await desktop().stream.stop();
  await until("both ports are free again", async () => {
    const { stdout } = await desktop().commands.run("netstat -tln; pgrep -x x11vnc || true");
    return !/:(?:6080|5900) /.test(stdout) && !/^\d+$/m.test(stdout);
  });
}

function screenOf(page: Page): Promise<number[]> {
  return page
    .locator("canvas")
    .evaluate((canvas) => [(canvas as HTMLCanvasElement).width, (canvas as HTMLCanvasElement).height]);
}

async function hasWindow(page: Page): Promise<boolean> {
  const points = await page.evaluate(
    (colour) => {
      const canvas = document.querySelector("canvas");
      // Until it is connected, the page has a canvas without a size, or none.
      if (canvas === null || canvas.width === 0) return 0;
      const { data } = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] };
      let found = 0;
      for (let at = 0; at < data.length; at += 4) {
        const [red = 0, green = 0, blue = 0] = [data[at], data[at + 1], data[at + 2]];
        if ((red << 16) + (green << 8) + blue === colour) found++;
      }
      return found;
    },
    Number.parseInt(COLOUR.slice(1), 16),
  );
  return isWindowIn({ count: () => points }, COLOUR);
}
