// A task in a browser on the desktop, done as a person does it: look, click, type.
import { writeFile } from "node:fs/promises";
import { Sandbox } from "@e2b/desktop";

/** It has its title when it is drawn: before that, a browser takes no clicks. */
const PAGE = `<!doctype html><title>Loading</title>
<script>onload = () => requestAnimationFrame(() => setTimeout(() => { document.title = "Order" }))</script>
<form onsubmit="event.preventDefault(); document.title = 'Thank you, ' + who.value">
  <input id="who" placeholder="Who is it for?" style="position: fixed; inset: 0; font-size: 3em; text-align: center">
</form>`;

const desktop = await Sandbox.create();
try {
  await desktop.files.write("/home/user/order.html", PAGE);
  await desktop.launch("google-chrome", "file:///home/user/order.html");
  await untilTitle("Order");

  const { width, height } = await desktop.getScreenSize();
  await desktop.leftClick(width / 2, height / 2);
  await desktop.write("Ada");
  await desktop.press("enter");
  await untilTitle("Thank you, Ada");

  const screenshot = await desktop.screenshot();
  console.log(`screenshot: ${width} × ${height}`);
  if (process.argv[2]) await writeFile(process.argv[2], screenshot);
} finally {
  await desktop.kill();
}

/** A model would look at screenshots; titles of windows do for a script. */
async function untilTitle(wanted) {
  for (let title = ""; title !== `${wanted} - Chromium`; ) {
    await desktop.wait(200);
    const [window] = await desktop.getApplicationWindows("chromium").catch(() => []);
    if (window) title = await desktop.getWindowTitle(window);
  }
  console.log(`seen: ${wanted}`);
}
