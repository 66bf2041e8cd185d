/** WORKDIR: makes a folder and those above it, as the user's; what exists stays as it is. */
import { Fault } from "../../contract/fault.ts";
import type { MakeFolderRequest } from "../../contract/runtime/guest-programs.ts";
import { quote } from "../system/quote.ts";
import { HeldFolders } from "./held-folders.ts";
import { absolutePath, isFolder, ownershipOf, resolvePlace } from "./places.ts";

export function makeFolder({ path, workdir, user }: MakeFolderRequest): string[] {
  const whole = absolutePath(path, workdir);
  const { root, missing } = resolvePlace(whole);
  if (!isFolder(root)) throw new Fault(400, `${quote(root)} is not a folder`);
  using folders = new HeldFolders(root, ownershipOf(null, user));
  folders.enter(missing);
  return [whole];
}
