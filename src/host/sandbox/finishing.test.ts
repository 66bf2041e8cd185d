import { expect, test } from "bun:test";
import type { ImageFiles } from "../checkpoint/manifest.ts";
import { Finishing } from "./finishing.ts";

/** Steps whose ends the test decides, and what has begun so far. */
function steps() {
  const [images, wholes] = [[], []] as [PromiseWithResolvers<ImageFiles>[], PromiseWithResolvers<void>[]];
  const begun: unknown[] = [];
  const finishing = new Finishing({
    image: () => {
      begun.push("image");
      return images[images.push(Promise.withResolvers()) - 1]?.promise ?? Promise.reject();
    },
    whole: (files) => {
      begun.push(files);
      return wholes[wholes.push(Promise.withResolvers()) - 1]?.promise ?? Promise.reject();
    },
  });
  return { images, wholes, begun, finishing };
}

const FILES: ImageFiles = { "a.img": { bytes: 1, digest: "d" } };
const passed = () => new Promise((done) => setImmediate(done));

test("nobody waits for the image while the disk is kept, and all of it is done when both are", async () => {
  const { images, wholes, begun, finishing } = steps();
  await finishing.beginImage();
  finishing.beginWhole();
  await passed();
  expect(begun).toEqual(["image"]);
  images[0]?.resolve(FILES);
  await passed();
  expect(begun).toEqual(["image", FILES]);
  const done = finishing.done();
  wholes[0]?.resolve();
  await done;
});

test("what was not begun early is begun when it is to be done", async () => {
  const { images, wholes, begun, finishing } = steps();
  const done = finishing.done();
  images[0]?.resolve(FILES);
  await passed();
  wholes[0]?.resolve();
  await done;
  expect(begun).toEqual(["image", FILES]);
});

test("an image that is written once more is done once more, after the first has come to its end", async () => {
  const { images, wholes, begun, finishing } = steps();
  await finishing.beginImage();
  finishing.beginWhole();
  const again = finishing.beginImage();
  await passed();
  expect(begun).toEqual(["image"]);
  images[0]?.reject(new Error("no room"));
  await again;
  const done = finishing.done();
  images[1]?.resolve(FILES);
  await passed();
  wholes[0]?.resolve();
  await done;
  expect(begun).toEqual(["image", "image", FILES]);
});

test("a failure is told to who waits, and nothing is at work when it is over", async () => {
  const { images, finishing } = steps();
  await finishing.beginImage();
  const over = finishing[Symbol.asyncDispose]();
  expect(await Promise.race([over.then(() => "over"), passed().then(() => "at work")])).toBe("at work");
  images[0]?.reject(new Error("no room"));
  await over;
  await expect(finishing.done()).rejects.toThrow("no room");
});
