/** Directories that change faster than a daemon can look. */
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync } from "node:fs";
import { LONG } from "../../../base/testing/long.ts";
import { emptyFolderOf, guestOfFile } from "../../testing/guest-of-file.ts";
import { put, StreamedWatch } from "../../testing/watching.ts";

const guest = await guestOfFile();
const home = emptyFolderOf(guest);

const watched = (name: string) => `${home}/${name}`;
const watch = () => StreamedWatch.open(guest, { path: home, recursive: true });
/** Faster than a shell, which starts a program for each step. */
const python = (script: string) => {
  const done = Bun.spawnSync(["python3", "-c", `import ctypes, os, random, shutil\n${script}`], { cwd: home });
  if (done.exitCode !== 0) throw new Error(done.stderr.toString());
};

// Guards against lost names in new directories, and names that are reported twice.
test("a watched tree reports quickly created entries, each once", async () => {
  await using reported = await watch();
  python(`
for round in range(20):
  os.makedirs(f"{round}/b/c")
  for at in range(200): open(f"{round}/b/c/{at}", "x").close()
  os.mkdir(f"{round}/b/d")`);
  const files = Array.from({ length: 200 }, (_, at) => `/b/c/${at}`);
  const paths = Array.from({ length: 20 }, (_, round) =>
    ["", "/b", "/b/c", "/b/d", ...files].map((path) => `CREATE ${round}${path}`),
  );
  expect((await reported.shown()).toSorted()).toEqual(paths.flat().toSorted());
});

// Guards against places that could not be reached and are not checked again, on a busy machine.
test("a watched tree loses nothing when a new directory is renamed at once, as installers do", async () => {
  await using reported = await watch();
  for (let round = 0; round < 20; round++) {
    python(`os.makedirs("tmp/x/y"); os.rename("tmp", "done-${round}")`);
    await reported.events();
    put(watched(`done-${round}/x/y/f`));
    expect(await reported.shown()).toEqual([`CREATE done-${round}/x/y/f`]);
  }
});

// Guards against the same, opening new directories by their path alone, and taking any directory at a path for the
// known one.
test("a watched tree follows one name that many directories have, one after the other", async () => {
  await using reported = await watch();
  python(`
for at in range(200):
  os.makedirs("tmp/x/y")
  os.rename("tmp", f"done-{at}")`);
  await reported.events();
  for (let at = 0; at < 200; at++) put(watched(`done-${at}/x/y/f`));
  expect(await reported.shown()).toEqual(Array.from({ length: 200 }, (_, at) => `CREATE done-${at}/x/y/f`));
});

// Guards against a place that was left and is not checked.
test("a watched tree distinguishes two directories that are swapped", async () => {
  mkdirSync(watched("a/of-a"), { recursive: true });
  mkdirSync(watched("b/of-b"), { recursive: true });
  await using reported = await watch();
  python(`assert ctypes.CDLL(None).renameat2(-100, b"a", -100, b"b", 2) == 0`);
  await reported.events();
  put(watched("a/of-b/f"));
  put(watched("b/of-a/f"));
  expect(await reported.shown()).toEqual(["CREATE a/of-b/f", "CREATE b/of-a/f"]);
});

/** Makes, moves and removes directories in a small space of names, so that they get into each other's way. */
const tumult = (seed: number) => `
random.seed(${seed})
def directories():
  return ["."] + [os.path.join(top, name) for top, names, _ in os.walk(".") for name in names]
for _ in range(400):
  known = directories()
  target = os.path.join(random.choice(known), random.choice("abcd"))
  try:
    act = random.random()
    if act < 0.5 and target.count("/") < 6: os.makedirs(target + random.choice(["", "/a", "/a/b"]))
    elif act < 0.9: os.rename(random.choice(known[1:] or ["none"]), target)
    else: shutil.rmtree(random.choice(known[1:] or ["none"]))
  except OSError: pass
`;

// Guards against new directories that are not searched.
test.each(LONG ? [1, 2, 3, 4, 5, 6, 7, 8] : [1, 2, 3])(
  "after random renames (seed %d) every directory is watched under its name",
  async (seed) => {
    await using reported = await watch();
    python(tumult(seed));
    await reported.events();
    const left = readdirSync(home, { recursive: true }).map((name) => `${name}/file`);
    for (const name of left) put(watched(name));
    expect((await reported.shown()).toSorted()).toEqual(left.map((name) => `CREATE ${name}`).toSorted());
    expect(left.length).toBeGreaterThan(0);
  },
);
