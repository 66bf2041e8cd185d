/** Chromium of the machine, without a screen, for pages that only a browser can judge. Set-up installs it. */
import { afterAll, beforeAll } from "bun:test";
import { type Browser, chromium } from "playwright-core";

const START_MS = 60_000;
/** It runs as root, on a machine without a graphics card, and has nobody to call. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function browserOfFile(): () => Browser {
  let browser: Browser | undefined;
  beforeAll(async () => {
    const executablePath = Bun.which("chromium") ?? "chromium";
    browser = await chromium.launch({ executablePath, args: FLAGS, timeout: START_MS });
  }, START_MS);
  afterAll(async () => {
    await browser?.close();
  });
  return () => {
    if (browser === undefined) throw new Error("there is no browser");
    return browser;
  };
}
