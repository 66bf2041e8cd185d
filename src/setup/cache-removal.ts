/** Removes a cache folder. The operator chose its path, so it may hold files that are not Sandlot's. */
import { existsSync, readdirSync, rmdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { serversWithImages } from "../images/cached-images.ts";
import { serversWithGuests } from "../images/guest-folders.ts";

/** What this and earlier versions write there, complete or not. */
const OWN =
  /^(?:lock|guests|images|restic-cache|bundle\.unfinished|(?:tools|runsc|restic)-\d+(?:\.unfinished)?|bun-\d[\w.]*-[0-9a-f]+(?:\.unfinished)?|restore\..+)$/;

/** Returns a sentence on what stays and why; undefined: nothing. */
export async function removeCache(cacheFolder: string): Promise<string | undefined> {
  if (!existsSync(cacheFolder)) return undefined;
  const servers = new Set([...serversWithGuests(cacheFolder), ...serversWithImages(cacheFolder)]);
  if (servers.size > 0) return `kept ${cacheFolder}, because other servers use it: ${[...servers].sort().join(", ")}`;
  const names = readdirSync(cacheFolder);
  for (const name of names) if (OWN.test(name)) await rm(join(cacheFolder, name), { recursive: true, force: true });
  const others = names.filter((name) => !OWN.test(name));
  if (others.length > 0)
    return `kept ${cacheFolder}, because it has files that are not Sandlot's: ${others.join(", ")}`;
  rmdirSync(cacheFolder);
  return undefined;
}
