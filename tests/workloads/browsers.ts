/** Workloads: browsers. Tested only with SANDLOT_TEST_LONG=1, because the image is large. */
import { expect } from "bun:test";
import type { Workload } from "./workload.ts";

const DEBUGGING_PORT = 9222;

/** Knows a word that is nowhere else, counts, and holds a drawing and a database. */
const PAGE = `<title>kept</title><canvas id=c></canvas><script>
const word = crypto.randomUUID();
let ticks = 0;
setInterval(() => ticks++, 5);
const drawing = document.getElementById("c").getContext("2d");
drawing.fillStyle = "#" + word.slice(0, 6);
drawing.fillRect(0, 0, 50, 50);
const pixel = () => Array.from(drawing.getImageData(10, 10, 1, 1).data).join();
const counter = new Worker(URL.createObjectURL(new Blob(["let n = 0; onmessage = () => postMessage(++n)"])));
const ask = () => new Promise((resolve) => { counter.onmessage = (event) => resolve(event.data); counter.postMessage(0); });
</script>`;

/** Evaluates each line in the page, over one connection that stays open, and prints the result. */
const CLIENT = `
import json, sys, urllib.request, websocket
pages = json.load(urllib.request.urlopen("http://127.0.0.1:${DEBUGGING_PORT}/json"))
page = [page for page in pages if page["type"] == "page"][0]
connection = websocket.create_connection(page["webSocketDebuggerUrl"], suppress_origin=True, timeout=25)
print("<ready>")
for number, line in enumerate(sys.stdin):
    params = {"expression": line, "awaitPromise": True, "returnByValue": True}
    connection.send(json.dumps({"id": number, "method": "Runtime.evaluate", "params": params}))
    while (answer := json.loads(connection.recv())).get("id") != number: pass
    print("<%s>" % answer["result"]["result"].get("value"))
`;

export const browsers: Workload[] = [
  {
    what: "headless Chromium (--no-sandbox) with a page, scripts, workers and the client that controls it",
    fate: "kept",
    async play(stage) {
      await stage.sandbox.files.write("/home/user/page.html", PAGE);
      const browser = await stage.command(
        `exec chromium-headless-shell --no-sandbox --remote-debugging-port=${DEBUGGING_PORT} file:///home/user/page.html`,
      );
      await browser.hear(/DevTools listening/);
      const client = await stage.python(CLIENT);
      await client.hear(/<ready>/);
      const ask = (expression: string) => client.ask(expression, /<(.*)>/);
      const before = [await ask("word"), await ask("pixel()")];
      expect(await ask("ask()")).toBe("1");
      for (const round of [2, 3]) {
        await stage.pauseAndResume();
        expect([await ask("word"), await ask("pixel()")]).toEqual(before);
        expect(await ask("ask()")).toBe(String(round));
        await ask("new Promise((resolve) => { const now = ticks; setInterval(() => ticks > now && resolve(1), 1) })");
      }
      // It can still open a new page.
      await stage.sandbox.files.write("/home/user/second.html", "<title>second</title>");
      const second = `http://127.0.0.1:${DEBUGGING_PORT}/json/new?file:///home/user/second.html`;
      await stage.run(`curl -sf -X PUT '${second}'`);
      await stage.run(
        `until curl -s http://127.0.0.1:${DEBUGGING_PORT}/json | grep -q '"title": "second"'; do sleep 0.05; done`,
      );
    },
  },
];
