/** The machine's Chromium without a screen, for pages that only a browser can judge. Set-up installs it. */
import { afterAll, beforeAll } from "bun:test";
import { type BrowserContext, chromium } from "playwright-core";

/** For its start and each action on a page: no promise about time is tested with it. */
const ACTION_MS = 180_000;
/** The browser runs as root, on a machine without a graphics card, and makes no calls of its own. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** One browser for all tests of a file; pages share its cache. */
export function browserOfFile(): () => BrowserContext {
  let pages: BrowserContext | undefined;
  beforeAll(async () => {
    const executablePath = Bun.which("chromium") ?? "chromium";
    const browser = await chromium.launch({ executablePath, args: FLAGS, timeout: ACTION_MS });
    pages = await browser.newContext();
    pages.setDefaultTimeout(ACTION_MS);
  });
  afterAll(async () => {
    await pages?.browser()?.close();
  });
  return () => {
    if (pages === undefined) throw new Error("there is no browser");
    return pages;
  };
}
