import { Sandbox } from "@e2b/desktop";
import { equal, runFeatures, until } from "./features.mjs";

// Security types of RFB, as the server of the stream offers them.
const NO_KEY = "1";
const KEY = "2";
const OFFERED = `import socket
server = socket.create_connection(("127.0.0.1", 5900))
stream = server.makefile("rb")
server.sendall(stream.read(12))
print(*stream.read(stream.read(1)[0]))`;
let desktop;

async function securityTypes() {
  await desktop.files.write("/tmp/offered.py", OFFERED);
  return (await desktop.commands.run("python3 /tmp/offered.py")).stdout.trim();
}

async function stopStream() {
  await desktop.stream.stop();
  const command = "netstat -tln; pgrep -x x11vnc || true";
  await until(async () => !/:(?:6080|5900) |^\d+$/m.test((await desktop.commands.run(command)).stdout));
}

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
    await desktop.scroll("down", 1);
    await desktop.drag([300, 200], [310, 210]);
  },
  clicks: async () => {
    // It writes each event of a button to its output.
    await desktop.commands.run("xev -event button -geometry 300x200+120+240 > /tmp/clicks", {
      background: true,
      timeoutMs: 0,
    });
    const buttons = async () =>
      [...(await desktop.files.read("/tmp/clicks")).matchAll(/ButtonPress[\s\S]*?button (\d)/g)].map(([, at]) => at);
    await until(async () => {
      await desktop.leftClick(250, 350);
      return (await buttons().catch(() => [])).length > 0;
    });
    const before = (await buttons()).length;
    await desktop.rightClick(250, 350);
    await desktop.doubleClick(250, 350);
    await desktop.middleClick(250, 350);
    await until(async () => (await buttons()).slice(before).join("") === "3112");
    await desktop.commands.run("pkill -x xev");
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
  "opening files": async () => {
    await desktop.files.write("/home/user/letter.txt", "A letter");
    await desktop.open("/home/user/letter.txt");
    const titles = async () => {
      const ids = await desktop.getApplicationWindows("mousepad").catch(() => []);
      return await Promise.all(ids.map((id) => desktop.getWindowTitle(id).catch(() => "")));
    };
    await until(async () => (await titles()).some((title) => title.includes("letter.txt")));
  },
  stream: async () => {
    await desktop.stream.start();
    equal([(await fetch(desktop.stream.getUrl())).status, await securityTypes()], [200, NO_KEY]);
    await stopStream();
  },
  "stream with a key": async () => {
    await desktop.stream.start({ requireAuth: true });
    const authKey = desktop.stream.getAuthKey();
    equal(desktop.stream.getUrl({ authKey }).includes(`password=${authKey}`), true);
    equal(await securityTypes(), KEY);
    await stopStream();
  },
  kill: async () => equal(await desktop.kill(), true),
});
