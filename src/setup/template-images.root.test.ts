/** Template root filesystems, made beside a server by a process that ends with the server. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { untilTrue } from "../base/testing/until.ts";
import { BUN_IN_TEMPLATE, type TemplateDefinition } from "../contract/template-definition.ts";
import { imageBelow, imageFolder } from "../images/image-folder.ts";
import { shiftedId } from "../system/id-range.ts";
import { takeLock } from "../system/syscalls.ts";
import { BASE_IMAGE } from "./base-image.ts";
import { firstBuildOf, hasTemplateImage, templateImage } from "./template-image.ts";
import { TemplateImages } from "./template-images.ts";

const definition: TemplateDefinition = {
  name: "pocket",
  id: "sandlotpocket0000000",
  description: "for this test",
  packages: [],
  finish: [],
  programs: {},
  start: null,
  cpuCount: 1,
  memoryMB: 512,
  diskSizeMB: 1024,
};
/** Lies on packages that have to be fetched. */
const larger: TemplateDefinition = { ...definition, name: "larger", packages: ["hello"] };

/** A mirror that responds as the test wants; at first it accepts requests and responds to none. */
let mirror: ReturnType<typeof Bun.serve>;
let response = (): Promise<Response> => new Promise(() => undefined);
let requested = Promise.withResolvers<void>();
let cacheFolder: string;

beforeAll(async () => {
  cacheFolder = await mkdtemp(join(tmpdir(), "sandlot-images-"));
  // A stand-in for the image of base: nothing reads its content.
  mkdirSync(imageFolder(cacheFolder, BASE_IMAGE), { recursive: true });
  mirror = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: () => {
      requested.resolve();
      return response();
    },
  });
});
afterAll(async () => {
  await mirror.stop(true);
  await rm(cacheFolder, { recursive: true, force: true });
});

const images = (debianMirror?: string) => new TemplateImages({ cacheFolder, debianMirror }, [definition, larger]);
const never = () => new AbortController().signal;

test("an image without packages is stacked on base and names its template and build", async () => {
  const lines: string[] = [];
  const image = await images().make("pocket", never(), (line) => lines.push(line));
  expect(image).toBe(templateImage(definition));
  expect(imageBelow(cacheFolder, image)).toBe(BASE_IMAGE);
  const ids = readFileSync(join(imageFolder(cacheFolder, image), ".e2b"), "utf8");
  expect(ids).toContain(`TEMPLATE_ID=${definition.id}\nBUILD_ID=${firstBuildOf(definition)}\n`);
  expect(lines[0]).toBe("Making the template pocket");
  const again: string[] = [];
  expect(await images().make("pocket", never(), (line) => again.push(line))).toBe(image);
  expect(again).toEqual([]);
  // Images with a definition stay in the cache folder; other images that the server made go eventually.
  expect(images().current()).toEqual(expect.arrayContaining([image, BASE_IMAGE, templateImage(larger)]));
  const noted = [image, BASE_IMAGE].map((name) => existsSync(`${imageFolder(cacheFolder, name)}.chosen`));
  expect(noted).toEqual([true, false]);
});

test("images with programs share one Bun, which belongs to root in a sandbox", async () => {
  const bunOf = async (program: TemplateDefinition) => {
    const made = await new TemplateImages({ cacheFolder, debianMirror: undefined }, [program]).make(
      program.name,
      never(),
      () => undefined,
    );
    expect(hasTemplateImage(cacheFolder, made)).toBe(true);
    expect(statSync(join(imageFolder(cacheFolder, made), "opt/program.js")).uid).toBe(shiftedId(0));
    return statSync(join(imageFolder(cacheFolder, made), BUN_IN_TEMPLATE));
  };
  const programs = { "/opt/program.js": "src/contract/fault.ts" };
  const [one, other] = [
    await bunOf({ ...definition, programs }),
    await bunOf({ ...definition, name: "other", programs }),
  ];
  expect([one.uid, one.mode & 0o7777, other.ino]).toEqual([shiftedId(0), 0o755, one.ino]);
});

test("an image does not exist without the image below it", async () => {
  const image = templateImage(definition);
  expect(hasTemplateImage(cacheFolder, image)).toBe(true);
  renameSync(imageFolder(cacheFolder, BASE_IMAGE), imageFolder(cacheFolder, "elsewhere"));
  expect(hasTemplateImage(cacheFolder, image)).toBe(false);
  renameSync(imageFolder(cacheFolder, "elsewhere"), imageFolder(cacheFolder, BASE_IMAGE));
  expect(hasTemplateImage(cacheFolder, `${image}0`)).toBe(false);
});

test("two concurrent calls make one image, the second waits for the lock", async () => {
  await rm(imageFolder(cacheFolder, templateImage(definition)), { recursive: true });
  const lines: string[] = [];
  const both = [1, 2].map(() => images().make("pocket", never(), (line) => lines.push(line)));
  expect(await Promise.all(both)).toEqual([templateImage(definition), templateImage(definition)]);
  expect(lines.filter((line) => line === "Making the template pocket")).toHaveLength(1);
});

test("an unknown name is rejected", async () => {
  await expect(images().make("rocket", never(), () => undefined)).rejects.toMatchObject({ status: 404 });
});

test("a cancelled build ends all its processes and releases the cache", async () => {
  requested = Promise.withResolvers();
  const over = new AbortController();
  const made = images(mirror.url.href).make("larger", over.signal, () => undefined);
  made.catch(() => undefined);
  await requested.promise;
  expect(isHeld()).toBe(true);
  over.abort(new Error("nobody wants it any more"));
  await expect(made).rejects.toThrow("nobody wants it any more");
  await untilLeft();
});

test("a build whose server is killed ends, and its leftovers do not block the next", async () => {
  requested = Promise.withResolvers();
  const program = `
    import { TemplateImages } from ${JSON.stringify(join(import.meta.dir, "template-images.ts"))};
    const [places, definition] = JSON.parse(process.argv[1]);
    await new TemplateImages(places, [definition]).make(definition.name, new AbortController().signal, () => undefined);`;
  const task = JSON.stringify([{ cacheFolder, debianMirror: mirror.url.href }, larger]);
  const server = Bun.spawn([process.execPath, "-e", program, task], { stdio: ["ignore", "ignore", "ignore"] });
  await requested.promise;
  server.kill("SIGKILL");
  await server.exited;
  await untilLeft();
  expect(existsSync(imageFolder(cacheFolder, templateImage(larger)))).toBe(false);
  // From now on the mirror has no packages; the failure is reported, and nothing is left.
  response = async () => new Response("none here", { status: 404 });
  const failed = images(mirror.url.href).make("larger", never(), () => undefined);
  await expect(failed).rejects.toMatchObject({
    status: 422,
    message: expect.stringContaining("on the mirror of SANDLOT_DEBIAN_MIRROR. FIX: "),
  });
  expect(readdirSync(join(cacheFolder, "images")).filter((name) => name.includes("unfinished"))).toEqual([]);
});

function isHeld(): boolean {
  using lock = takeLock(join(cacheFolder, "lock"));
  return lock === undefined;
}

/** Waits until no process of it runs and the lock is free. */
async function untilLeft(): Promise<void> {
  await untilTrue(() => !isHeld() && processesOf(cacheFolder).length === 0);
}

function processesOf(word: string): string[] {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name) || name === String(process.pid)) return false;
    try {
      return readFileSync(`/proc/${name}/cmdline`, "utf8").includes(word);
    } catch {
      return false;
    }
  });
}
