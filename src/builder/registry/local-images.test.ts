import { expect, test } from "bun:test";
import { parseImageName } from "../../contract/image-name.ts";
import { LocalImages, parseLocalImages } from "./local-images.ts";

const find = (images: LocalImages, name: string) => images.find(parseImageName(name));

test("a name without a tag matches all tags, and a name with a tag takes precedence", () => {
  const images = new LocalImages(
    parseLocalImages("debian=layout:/srv/any debian:13=archive:/srv/13.tar\n\tghcr.io/a/b=folder:/srv/root"),
  );
  expect(find(images, "docker.io/library/debian:12")).toEqual({ kind: "layout", place: "/srv/any" });
  expect(find(images, "debian")).toEqual({ kind: "layout", place: "/srv/any" });
  expect(find(images, "debian:13")).toEqual({ kind: "archive", place: "/srv/13.tar" });
  expect(find(images, "ghcr.io/a/b:1")).toEqual({ kind: "folder", place: "/srv/root" });
  expect(find(images, "ghcr.io/a/c")).toBeUndefined();
});

test("the clients' default image is the template base, unless the operator replaces it", () => {
  const base = { kind: "template", place: "base" } as const;
  expect(find(new LocalImages(), "e2bdev/base")).toEqual(base);
  expect(find(new LocalImages(), "e2bdev/base:latest")).toEqual(base);
  expect(new LocalImages().templateOf("e2bdev/base")).toBe("base");
  expect(new LocalImages().templateOf("debian")).toBeUndefined();
  const elsewhere = parseLocalImages("e2bdev/base=registry:docker.io/e2bdev/base");
  expect(find(new LocalImages(elsewhere), "e2bdev/base")).toEqual({
    kind: "registry",
    place: "docker.io/e2bdev/base",
  });
});

test("an invalid entry is rejected with an example", () => {
  for (const entry of ["debian", "debian=/srv/x", "debian=oci:/srv/x", "debian=layout:srv", "debian=template:"]) {
    expect(() => parseLocalImages(entry)).toThrow(`images: "${entry}" must look like debian:13=layout:/srv/debian`);
  }
  expect(() => parseLocalImages("Debian=layout:/srv/x")).toThrow('the image name "Debian" is not valid');
  expect(() => parseLocalImages("debian=registry:De bian")).toThrow("not valid");
});
