/**
 * Root filesystems in the cache folder: those that come with Sandlot, and the images they are stacked on.
 * marked-folders.ts removes old ones.
 *
 *   images/NAME          the files
 *   images/NAME.below    the image on which it is stacked; absent: none
 *   images/NAME.chosen   its time is when the image was last made, chosen or needed
 *
 * Earlier versions of Sandlot wrote no NAME.chosen and no marks. Their servers may still need such an image, so it
 * stays.
 */
import { existsSync, readdirSync } from "node:fs";
import { type Clock, systemClock } from "../base/clock.ts";
import { scaled } from "../base/time-factor.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { BELOW, imageBelow, imageFolder } from "./image-folder.ts";
import {
  choose,
  dropMarksOf,
  type FolderKind,
  MarkedFolders,
  markedBy,
  noteMaking,
  tagsOfMarks,
} from "./marked-folders.ts";

export const IMAGE_REMOVE_MS = scaled(300_000);

/** Names with a leading dot cannot be mistaken for images. */
const IMAGES: FolderKind = {
  folder: "images",
  name: /^[a-z0-9][a-z0-9-]{0,127}$/,
  marks: ".in-use",
  lock: ".lock",
  note: ".chosen",
  besides: [BELOW],
  removeMs: IMAGE_REMOVE_MS,
};

export function cachedImages(
  cacheFolder: string,
  data: Pick<DataFolder, "path" | "tag">,
  clock: Clock = systemClock,
): MarkedFolders {
  return new MarkedFolders(IMAGES, data, cacheFolder, clock);
}

/** Whether the image exists; if so, it stays until the starting server has marked it. */
export function chooseImage(cacheFolder: string, image: string, clock: Pick<Clock, "now"> = systemClock): boolean {
  return choose(IMAGES, imageFolder(cacheFolder, image), clock);
}

/** Call this before the image is made. */
export function noteImage(cacheFolder: string, image: string, clock: Pick<Clock, "now"> = systemClock): void {
  noteMaking(IMAGES, imageFolder(cacheFolder, image), clock);
}

/** Images that the server with this tag needs. */
export function imagesMarkedBy(cacheFolder: string, tag: string): string[] {
  return markedBy(IMAGES, cacheFolder, tag);
}

/** Tags of the servers that need images of this cache. */
export function serversWithImages(cacheFolder: string): string[] {
  return tagsOfMarks(IMAGES, cacheFolder);
}

/** Drops the marks of a server that is removed, except for images that its checkpoints and templates still need. */
export function dropImageMarks(cacheFolder: string, tag: string, needed: Iterable<string> = []): void {
  dropMarksOf(IMAGES, cacheFolder, tag, needed);
}

/** Images that others in the cache folder are stacked on. They are removed after all of those. */
export function stackedOn(cacheFolder: string): string[] {
  const there = new Set(readdirSync(imageFolder(cacheFolder, "")));
  return [...there].filter((name) => there.has(name + BELOW)).flatMap((name) => imageBelow(cacheFolder, name) ?? []);
}

/** The image and those it is stacked on, as far as they are in the cache folder. */
export function cachedStack(cacheFolder: string, image: string): string[] {
  const found = new Set<string>();
  for (let at: string | null = image; at !== null && !found.has(at); at = imageBelow(cacheFolder, at)) {
    if (!existsSync(imageFolder(cacheFolder, at))) break;
    found.add(at);
  }
  return [...found];
}
