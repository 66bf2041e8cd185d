/**
 * Images that the operator has put in the place of others, by the names that builds ask for: an OCI layout, an archive
 * of `docker save` or `skopeo`, a plain folder, a template, or an image of another registry.
 */

import { Fault } from "../../contract/fault.ts";
import { fullImageName, type ImageName, parseImageName } from "../../contract/image-name.ts";

export interface LocalImage {
  kind: "layout" | "archive" | "folder" | "template" | "registry";
  /** An absolute path; of a template or an image of a registry, its name. */
  place: string;
}

const KINDS: readonly LocalImage["kind"][] = ["layout", "archive", "folder", "template", "registry"];

/** What clients name that say nothing of an image of their own. */
const DEFAULTS: Readonly<Record<string, LocalImage>> = { "e2bdev/base": { kind: "template", place: "base" } };

export class LocalImages {
  readonly #byName = new Map<string, LocalImage>();

  /** By names with or without a tag; those with one count more. */
  constructor(images: Readonly<Record<string, LocalImage>> = {}) {
    for (const [name, image] of Object.entries({ ...DEFAULTS, ...images })) this.#byName.set(keyOf(name), image);
  }

  /** The name of the template that stands for an image; undefined: none does. */
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

/** `debian:13=layout:/srv/debian-13 …`. Fault 400 that says what is wrong with it. */
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
