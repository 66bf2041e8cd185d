import { Sandbox } from "@e2b/desktop";
import { equal, runFeatures, until } from "./features.mjs";

let desktop;

await runFeatures({
  create: async () => {
    desktop = await Sandbox.create({ resolution: [1024, 768], timeoutMs: 900_000 });
  },
  screenshot: async () => {
    const png = Buffer.from(await desktop.screenshot());
    equal([png.readUInt32BE(16), png.readUInt32BE(20)], [1024, 768]);
  },
  pointer: async () => {
    await desktop.moveMouse(300, 200);
    equal(await desktop.getCursorPosition(), { x: 300, y: 200 });
    await desktop.leftClick();
    await desktop.scroll("down", 1);
    await desktop.drag([300, 200], [310, 210]);
  },
  "screen size": async () => equal(await desktop.getScreenSize(), { width: 1024, height: 768 }),
  keyboard: async () => {
    await desktop.write("a");
    await desktop.press("BackSpace");
  },
  windows: async () => {
    await desktop.launch("xfce4-terminal");
    // The client fails as long as there is no such window.
    await until(async () => (await desktop.getApplicationWindows("xfce4-terminal").catch(() => [])).length > 0);
    await desktop.getCurrentWindowId();
  },
  stream: async () => {
    await desktop.stream.start();
    if (!desktop.stream.getUrl().includes("6080-")) throw new Error(desktop.stream.getUrl());
    await desktop.stream.stop();
  },
  kill: async () => equal(await desktop.kill(), true),
});
