import { expect, test } from "bun:test";
import type { SealedImage } from "./checkpoint/image-files.ts";
import { Finishing } from "./finishing.ts";

/** Steps that the test ends, and a record of those begun. */
function steps() {
  const [images, wholes] = [[], []] as [PromiseWithResolvers<SealedImage>[], PromiseWithResolvers<void>[]];
  const begun: unknown[] = [];
  const finishing = new Finishing({
    image: () => {
      begun.push("image");
      return images[images.push(Promise.withResolvers()) - 1]?.promise ?? Promise.reject();
    },
    whole: (image) => {
      begun.push(image);
      return wholes[wholes.push(Promise.withResolvers()) - 1]?.promise ?? Promise.reject();
    },
  });
  return { images, wholes, begun, finishing };
}

const IMAGE: SealedImage = { files: { "a.img": { bytes: 1, digest: "d" } }, durable: Promise.resolve() };
const passed = () => new Promise((done) => setImmediate(done));

test("nobody waits for the image while the disk is kept, and all of it is done when both are", async () => {
  const { images, wholes, begun, finishing } = steps();
  await finishing.beginImage();
  finishing.beginWhole();
  await passed();
  expect(begun).toEqual(["image"]);
  images[0]?.resolve(IMAGE);
  await passed();
  expect(begun).toEqual(["image", IMAGE]);
  const done = finishing.done();
  wholes[0]?.resolve();
  await done;
});

test("what was not begun early is begun when it is to be done", async () => {
  const { images, wholes, begun, finishing } = steps();
  const done = finishing.done();
  images[0]?.resolve(IMAGE);
  await passed();
  wholes[0]?.resolve();
  await done;
  expect(begun).toEqual(["image", IMAGE]);
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
  images[1]?.resolve(IMAGE);
  await passed();
  wholes[0]?.resolve();
  await done;
  expect(begun).toEqual(["image", "image", IMAGE]);
});

test("a failure is told to who waits, and nothing is at work when it is over", async () => {
  const { images, wholes, finishing } = steps();
  await finishing.beginImage();
  const over = finishing[Symbol.asyncDispose]();
  const isOver = () => Promise.race([over.then(() => true), passed().then(() => false)]);
  expect(await isOver()).toBe(false);
  const durable = Promise.withResolvers<void>();
  images[0]?.resolve({ files: {}, durable: durable.promise });
  await passed();
  expect(await isOver()).toBe(false);
  durable.reject(new Error("no room"));
  await over;
  const done = finishing.done();
  await passed();
  wholes[0]?.reject(new Error("no room"));
  await expect(done).rejects.toThrow("no room");
});
