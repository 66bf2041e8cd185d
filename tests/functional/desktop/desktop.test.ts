/** Screens through the unmodified `@e2b/desktop` client. */
import { expect, test } from "bun:test";
import type { Sandbox } from "@e2b/desktop";
import {
  currentTitle,
  desktopOfFile,
  desktopServer,
  openColouredWindow,
  pictureOf,
} from "../../support/screen/desktop.ts";
import { readPicture } from "../../support/screen/picture.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = desktopServer();
const desktop = desktopOfFile(server);

const MIDDLE = { x: 512, y: 384 };
/** Longer than a menu takes to open, also on a busy machine. */
const MENU_MS = 10_000;

test("the pointer is in the middle of the screen, which has the size that the client asked for", async () => {
  expect(await desktop().getCursorPosition()).toEqual(MIDDLE);
  expect(await desktop().getScreenSize()).toEqual({ width: 1024, height: 768 });
});

test("screenshots are PNG of that size, in every format", async () => {
  const bytes = await desktop().screenshot();
  const blob = await desktop().screenshot("blob");
  const stream = await desktop().screenshot("stream");
  for (const png of [bytes, await blob.bytes(), await new Response(stream).bytes()]) {
    const { width, height } = readPicture(png);
    expect([width, height]).toEqual([1024, 768]);
  }
});

test("the D-Bus machine id exists", async () => {
  expect(await desktop().files.read("/etc/machine-id")).toMatch(/^[0-9a-f]{32}\n$/);
});

test("folders that the template adds files to keep their owner and mode", async () => {
  const { stdout } = await desktop().commands.run("stat -c '%A %U' /home/user /usr/local/bin; readlink /opt/noVNC");
  expect(stdout.split("\n")).toEqual(["drwx------ user", "drwxrwxrwx root", "../usr/share/novnc", ""]);
});

test.each([
  [1, 1],
  [1023, 767],
  [333, 421],
])("the pointer moves to exactly %p, %p", async (x, y) => {
  await desktop().moveMouse(x, y);
  expect(await desktop().getCursorPosition()).toEqual({ x, y });
});

test("the panel fits on the screen", async () => {
  const picture = await pictureOf(desktop());
  const edge = [...Array(4 * 20).keys()].map((at) => picture.at(1023 - (at % 4), 3 + Math.floor(at / 4)));
  expect(new Set(edge)).toEqual(new Set(["#f6f5f4"]));
});

test.each(["zh-cn", "zh-tw", "ja", "ko"])("there is a font for %s", async (language) => {
  const { stdout } = await desktop().commands.run(`fc-list :lang=${language} family`);
  expect(stdout).toContain("WenQuanYi Micro Hei");
});

// The desktop drops a click while it waits in vain (0.25 s) for the window manager to release the pointer. Before all
// tests that open windows: a busy machine paints the place of a closed one later.
test("a right click on the desktop opens its menu", async () => {
  const before = await pictureOf(desktop());
  const around = [...Array(100).keys()].map((step) => [720 + step, 310 + 2 * step] as const);
  const isShown = async () => {
    const now = await pictureOf(desktop());
    return around.filter(([x, y]) => now.at(x, y) !== before.at(x, y)).length > 50;
  };
  const close = async () => {
    await desktop().press("esc");
    return !(await isShown());
  };
  await until("a click changes the picture around the pointer", async () => {
    await close();
    await desktop().rightClick(700, 300);
    return await until("the menu is there", isShown, MENU_MS).then(
      () => true,
      () => false,
    );
  });
  // An open menu would take the keys of later tests.
  await until("the menu is gone", close);
});

test.each([
  ["mousepad", "mousepad", /Mousepad$/],
  ["no-such-program", "xmessage", /^Application not found$/],
])("launch of %s opens a window", async (application, owner, title) => {
  await desktop().launch(application);
  await until(
    () => `a window of ${owner} has the title ${title}`,
    async () => (await titlesOf(owner)).some((each) => title.test(each)),
  );
  await desktop().commands.run(`pkill -x ${owner}`);
  await until("it is gone", async () => (await titlesOf(owner)).length === 0);
});

test("a screenshot shows a coloured window, which has a title and an id", async () => {
  await openColouredWindow(desktop(), { colour: "#1fa34c", title: "green" });
  const [id = ""] = await desktop().getApplicationWindows("xmessage");
  expect(await desktop().getWindowTitle(id)).toBe("green");
  // Where it lies, and nowhere else.
  const picture = await pictureOf(desktop());
  expect(picture.at(270, 400)).toBe("#1fa34c");
  expect(picture.at(700, 400)).not.toBe("#1fa34c");
  await desktop().commands.run("pkill -x xmessage");
  const windows = () => desktop().getApplicationWindows("xmessage");
  await until("its window is gone", () =>
    windows()
      .then(() => false)
      .catch(() => true),
  );
  expect((await refusalOf(windows())).message).toContain("exit status 1");
});

test("typed text reaches the focused window unchanged", async () => {
  const text = `It's "25 characters" a call; so $HOME & \`this\` \\ take 3.`;
  await expectTyped(text, () => desktop().write(text));
});

// Guards against the session's repetition of held keys: a machine that stalls between press and release holds them.
test("a key that is held down types one letter", async () => {
  await expectTyped("a", () => desktop().commands.run("xdotool keydown a; sleep 1.5; xdotool keyup a"));
});

test("characters without a key reach a program that reads its events late", async () => {
  const text = "naïve café Ünïcode αβγ жщ 日本語 €";
  const xev = "xev -name letters -event keyboard -geometry 300x200+120+240 > /tmp/letters";
  const watching = await desktop().commands.run(xev, { background: true, timeoutMs: 0 });
  await until("the window has the keyboard", async () => (await currentTitle(desktop())) === "letters");
  await desktop().commands.run("pkill -STOP -x xev");
  await desktop().write(text);
  await desktop().commands.run("pkill -CONT -x xev");
  const pressed = async () =>
    (await written("/tmp/letters")).split("\n\n").filter((event) => event.includes("KeyPress"));
  const typed = async () =>
    (await pressed()).map((event) => /XmbLookupString gives .*"(.*)"/.exec(event)?.[1] ?? "").join("");
  await until("the last letter is there", async () => (await typed()).endsWith("€"));
  expect(await typed()).toBe(text);
  await watching.kill();
});

test("buttons, the wheel, drags and keys reach a window", async () => {
  await desktop().commands.run("xev -name events -geometry 300x200+120+240 > /tmp/events", { background: true });
  await until("the window has the keyboard", async () => (await currentTitle(desktop())) === "events");
  await desktop().leftClick(200, 350);
  await desktop().middleClick(200, 350);
  await desktop().doubleClick(200, 350);
  await desktop().scroll("up", 2);
  await desktop().scroll("down", 1);
  await desktop().mousePress("right");
  await desktop().mouseRelease("right");
  await desktop().drag([210, 360], [310, 380]);
  for (const key of ["enter", "f5", "page_down", "a"]) await desktop().press(key);
  await desktop().press(["ctrl", "shift", "x"]);
  const textOf = () => written("/tmp/events");
  await until("the last key is there", async () => /KeyRelease event[\s\S]*keysym 0x58, X\)/.test(await textOf()));
  const buttons = [...(await textOf()).matchAll(/ButtonPress event[\s\S]*?button (\d)/g)].map(([, button]) => button);
  expect(buttons.join("")).toBe("121144531");
  const keys = [...(await textOf()).matchAll(/KeyPress event[\s\S]*?keysym \w+, (\w+)\)/g)].map(([, key]) => key);
  expect(keys).toEqual(["Return", "F5", "Next", "a", "Control_L", "Shift_L", "X"]);
  // Pressed where the drag begins, released where it ends.
  const places = [...(await textOf()).matchAll(/(Button\w+) event[\s\S]*?root:\((\d+,\d+)\)/g)].slice(-2);
  expect(places.map(([, what, where]) => [what, where])).toEqual([
    ["ButtonPress", "210,360"],
    ["ButtonRelease", "310,380"],
  ]);
  await desktop().commands.run("pkill -x xev");
});

test("a text file opens in an editor and stays unchanged", async () => {
  await desktop().files.write("/home/user/letter.txt", "Dear reader\n");
  await desktop().open("/home/user/letter.txt");
  await until("the editor has it", async () => (await currentTitle(desktop())) === "~/letter.txt - Mousepad");
  expect((await desktop().getApplicationWindows("mousepad")).length).toBeGreaterThan(0);
  expect(await written("/home/user/letter.txt")).toBe("Dear reader\n");
});

test("the browser starts by each of its names and opens pages", async () => {
  const page = (title: string, colour: string) => `<title>${title}</title><body style="background:${colour}">`;
  await desktop().files.write("/home/user/first.html", page("first page", "#7b2d8e"));
  await desktop().files.write("/home/user/second.html", page("second page", "#c98a12"));
  await desktop().files.write("/home/user/third.html", page("third page", "#0f5fbf"));
  await desktop().launch("google-chrome", "file:///home/user/first.html");
  await isShown(desktop(), "first page", "#7b2d8e");
  await desktop().launch("firefox", "file:///home/user/second.html");
  await isShown(desktop(), "second page", "#c98a12");
  await desktop().open("/home/user/third.html");
  await isShown(desktop(), "third page", "#0f5fbf");
});

async function isShown(on: Sandbox, title: string, colour: string): Promise<void> {
  await until(`the browser has ${title}`, async () => (await currentTitle(on)) === `${title} - Chromium`);
  await until(`${title} is drawn`, async () => (await pictureOf(on)).count(colour) > 100_000);
}

/** The titles of all windows of a program. A window that closes meanwhile has none. */
async function titlesOf(owner: string): Promise<string[]> {
  const windows = await desktop()
    .getApplicationWindows(owner)
    .catch(() => []);
  return await Promise.all(
    windows.map((id) =>
      desktop()
        .getWindowTitle(id)
        .catch(() => ""),
    ),
  );
}

/** In a terminal whose program writes what it reads into a file. */
async function expectTyped(text: string, type: () => Promise<unknown>): Promise<void> {
  const title = `typing-${crypto.randomUUID()}`;
  const path = `/home/user/${title}`;
  const line = `xfce4-terminal --title=${title} --execute sh -c 'cat > ${path}; mv ${path} ${path}.whole'`;
  await desktop().commands.run(line, { background: true, timeoutMs: 0 });
  await until("the terminal has the keyboard", async () => (await currentTitle(desktop())) === title);
  // The terminal drops keys until its program has started.
  await until("the program reads", () => desktop().files.exists(path));
  await type();
  await desktop().press("enter");
  await desktop().press(["ctrl", "d"]);
  let seen = "";
  await until(
    () => `the program has read all; so far ${JSON.stringify(seen)}`,
    async () => {
      seen = await written(path).catch(() => seen);
      return await desktop().files.exists(`${path}.whole`);
    },
  );
  expect(await written(`${path}.whole`)).toBe(`${text}\n`);
}

function written(path: string): Promise<string> {
  return desktop().files.read(path);
}
