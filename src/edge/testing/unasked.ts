/** For tests: services of an edge that get no requests. */
import type { Directory } from "../../contract/internal/directory.ts";

export function unasked() {
  const asked = () => Promise.reject(new Error("nobody asks"));
  const directory: Directory = { follow: () => undefined, forward: asked, wake: asked, findSigned: asked };
  return { directory, routes: { find: () => undefined }, log: () => undefined };
}
