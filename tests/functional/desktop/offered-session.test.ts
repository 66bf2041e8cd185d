/**
 * Screen and session run in the template's snapshot. A client that asks for the same ones gets them; a client that asks
 * for others gets those, and nothing is left of the first.
 */
import { expect, test } from "bun:test";
import { Sandbox } from "@e2b/desktop";
import { LONG } from "../../../src/base/testing/long.ts";
import { desktopServer, optionsOf, pictureOf } from "../../support/screen/desktop.ts";
import { refusalOf, until } from "../../support/until.ts";

/** After this time an unpainted session counts as painted, so a slow machine's first picture may be black. */
const UNPAINTED_MS = 20_000;

const server = desktopServer();
const PANEL = "#f6f5f4";
const CLONES = LONG ? 20 : 2;

test("the first client gets the started screen and session, with a new machine id", async () => {
  const machines = new Set<string>();
  for (let clone = 0; clone < CLONES; clone++) {
    const desktop = await Sandbox.create(optionsOf(server()));
    await expectRunning(desktop, { Xvfb: ["offered"], "xfce4-session": ["offered"], xfwm4: ["offered"] });
    expect(await desktop.getCursorPosition()).toEqual({ x: 512, y: 384 });
    const picture = await pictureOf(desktop);
    // The panel and the background are drawn.
    expect([picture.width, picture.height, picture.at(750, 2)]).toEqual([1024, 768, PANEL]);
    expect(picture.count("#000000")).toBeLessThan(10_000);
    machines.add(await desktop.files.read("/etc/machine-id"));
    await desktop.kill();
  }
  expect(machines.size).toBe(CLONES);
});

test("the started session is handed out once, and other screens do not touch it", async () => {
  const desktop = await Sandbox.create(optionsOf(server()));
  const again = desktop.commands.run("Xvfb :0 -ac -screen 0 1024x768x24 -retro -dpi 96 -nolisten tcp -nolisten unix");
  expect((await refusalOf(again)).message).toBe("exit status 1");
  await desktop.commands.run("Xvfb :1 -ac -screen 0 640x480x24 -nolisten unix", { background: true, timeoutMs: 0 });
  await until("there is a second screen", async () => {
    const { stdout } = await desktop.commands.run("xrandr --display :1 || true");
    return stdout.includes("640x480");
  });
  await expectRunning(desktop, { Xvfb: ["offered", "own"] });
  expect(await desktop.getScreenSize()).toEqual({ width: 1024, height: 768 });
});

const OTHERS = [
  { what: "another display, size and density", display: ":7", resolution: [800, 600] as [number, number], dpi: 120 },
  { what: "another size and density", display: ":0", resolution: [800, 600] as [number, number], dpi: 120 },
  { what: "another display", display: ":7", resolution: [1024, 768] as [number, number], dpi: 96 },
];
test.each(LONG ? OTHERS : OTHERS.slice(0, 1))(
  "a client that asks for $what gets only that",
  async ({ display, resolution: [width, height], dpi }) => {
    const wanted = { display, resolution: [width, height] as [number, number], dpi };
    const began = performance.now();
    const desktop = await Sandbox.create("desktop", { ...optionsOf(server()), ...wanted });
    let picture = await pictureOf(desktop);
    const isPainted = () =>
      picture.at((3 * width) / 4, 2) === PANEL && picture.count("#000000") < (width * height) / 50;
    if (performance.now() - began > UNPAINTED_MS) {
      await until("the session is painted", async () => {
        picture = await pictureOf(desktop);
        return isPainted();
      });
    }
    expect(await desktop.getScreenSize()).toEqual({ width, height });
    expect(await desktop.getCursorPosition()).toEqual({ x: width / 2, y: height / 2 });
    // The session's settings change the values that X reports.
    const screen = `Xvfb ${display} -ac -screen 0 ${width}x${height}x24 -retro -dpi ${dpi} -nolisten tcp -nolisten unix`;
    expect((await desktop.commands.run("pgrep -xa Xvfb")).stdout).toEndWith(`${screen}\n`);
    await expectRunning(desktop, { Xvfb: ["own"], "xfce4-session": ["own"], xfwm4: ["own"] });
    // The first picture is of a session that is painted.
    expect([picture.width, picture.height, isPainted()]).toEqual([width, height, true]);
  },
);

/**
 * These are there in the end, and no others: a session starts its programs in its own time, and lets some of their
 * makers go before they are another program.
 */
async function expectRunning(desktop: Sandbox, wanted: Record<string, string[]>): Promise<void> {
  let found: Record<string, string[]> = {};
  const isSo = async () => {
    found = await running(desktop);
    return Bun.deepEquals({ ...found, ...wanted }, found);
  };
  await until("just these run", isSo).catch(() => undefined);
  expect(found).toMatchObject(wanted);
}

/**
 * For each program, whether it is from the snapshot. A forked child that has not yet executed its program does not
 * count. Name and parent are read together, because such a child may be gone a moment later (`Xvfb` starts one whenever
 * its last client leaves).
 */
async function running(desktop: Sandbox): Promise<Record<string, string[]>> {
  const { stdout: table } = await desktop.commands.run("ps -eo pid=,ppid=,comm=");
  const { stdout: offers } = await desktop.commands.run(
    "grep -lsxz SANDLOT_DESKTOP_OFFER=1 /proc/[0-9]*/environ || true",
  );
  const offered = new Set(offers.trim().split("\n"));
  const processes = new Map(
    table.split("\n").map((line) => {
      const [pid = "", parent = "", name = ""] = line.trim().split(/\s+/);
      return [pid, { parent, name }];
    }),
  );
  const found: Record<string, string[]> = { Xvfb: [], "xfce4-session": [], xfwm4: [] };
  for (const [pid, { parent, name }] of processes)
    if (processes.get(parent)?.name !== name)
      found[name]?.push(offered.has(`/proc/${pid}/environ`) ? "offered" : "own");
  return found;
}
