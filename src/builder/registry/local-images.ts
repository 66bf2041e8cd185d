/**
 * Images that the operator substitutes for others, by the names that builds use: an OCI layout, an archive of `docker
 * save` or `skopeo`, a plain folder, a template, or an image of another registry.
 */
import { Fault } from "../../contract/fault.ts";
import { fullImageName, type ImageName, parseImageName } from "../../contract/image-name.ts";

export interface LocalImage {
  kind: "layout" | "archive" | "folder" | "template" | "registry";
  /** An absolute path, or the name of a template or registry image. */
  place: string;
}

const KINDS: readonly LocalImage["kind"][] = ["layout", "archive", "folder", "template", "registry"];

/** The default image name that clients send when the user chose none. */
const DEFAULTS: Readonly<Record<string, LocalImage>> = { "e2bdev/base": { kind: "template", place: "base" } };

export class LocalImages {
  readonly #byName = new Map<string, LocalImage>();

  /** Names with or without a tag; a name with a tag takes precedence. */
  constructor(images: Readonly<Record<string, LocalImage>> = {}) {
    for (const [name, image] of Object.entries({ ...DEFAULTS, ...images })) this.#byName.set(keyOf(name), image);
  }

  /** The template that replaces an image; undefined: none. */
  templateOf(image: string): string | undefined {
    const found = this.find(parseImageName(image));
    return found?.kind === "template" ? found.place : undefined;
  }

  find(name: ImageName): LocalImage | undefined {
    const { registry, repository } = name;
    return this.#byName.get(fullImageName(name)) ?? this.#byName.get(`${registry}/${repository}`);
  }
}

function keyOf(text: string): string {
  const name = parseImageName(text);
  return name.tag === null && name.digest === null ? `${name.registry}/${name.repository}` : fullImageName(name);
}

/** Parses `debian:13=layout:/srv/debian-13 …`. Fault 400 explains what is wrong. */
export function parseLocalImages(text: string): Record<string, LocalImage> {
  const images: Record<string, LocalImage> = {};
  for (const entry of text.split(/\s+/).filter((word) => word !== "")) {
    const [, name = "", kind, place = ""] = /^([^=]*)=([a-z]+):(.*)$/.exec(entry) ?? [];
    const known = KINDS.find((candidate) => candidate === kind);
    const isName = known === "template" || known === "registry";
    if (known === undefined || (isName ? place === "" : !place.startsWith("/"))) {
      throw new Fault(
        400,
        `images: "${entry}" must look like debian:13=layout:/srv/debian, with one of ${KINDS.join(", ")} and ` +
          "an absolute path, the name of a template, or that of an image",
      );
    }
    parseImageName(name);
    if (known === "registry") parseImageName(place);
    images[name] = { kind: known, place };
  }
  return images;
}
