/** For tests: services of an edge that get no requests. */
import type { Directory } from "../../contract/internal/directory.ts";

export function idleServices() {
  const unexpected = () => Promise.reject(new Error("an idle edge gets no requests"));
  const directory: Directory = {
    follow: () => undefined,
    forward: unexpected,
    wake: unexpected,
    findSigned: unexpected,
  };
  return { directory, routes: { find: () => undefined }, log: () => undefined };
}
