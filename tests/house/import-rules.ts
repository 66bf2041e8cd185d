/**
 * Who may import whom. docs/architecture.md shows the same directions to people. A file that has to break this table is
 * in the wrong room.
 */
import { dirname, join, normalize } from "node:path/posix";
import { importsOf, type SourceFile } from "./source-files.ts";

/**
 * What each room may import besides itself. A file is in the room with the longest name that its path begins with. An
 * entry that ends in `.ts` is a single file; all others are rooms, without the rooms inside them.
 */
export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  "contract/management": list("contract contract/runtime/version.ts"),
  "contract/runtime": list("contract"),

  work: list("contract"),
  http1: [],
  store: list("contract contract/management work"),
  blobs: list("contract work"),

  guest: list(`
    contract contract/runtime guest/system guest/users guest/rpc guest/tree guest/files
    guest/filesystem guest/process guest/journal guest/programs
  `),
  "guest/system": list("contract contract/runtime work guest/limits.ts"),
  "guest/users": list("contract contract/runtime guest/limits.ts guest/system"),
  "guest/rpc": list("contract contract/runtime guest/limits.ts guest/system guest/users"),
  "guest/tree": list("contract contract/runtime guest/limits.ts guest/system guest/users"),
  "guest/journal": list("contract contract/runtime guest/limits.ts guest/system"),
  "guest/files": list("contract contract/runtime guest/limits.ts guest/system guest/users guest/tree"),
  "guest/filesystem": list(`
    contract contract/runtime work guest/limits.ts guest/system guest/users guest/rpc guest/tree
    guest/journal
  `),
  "guest/process": list(
    "contract contract/runtime work guest/limits.ts guest/system guest/users guest/rpc guest/journal",
  ),

  "guest/programs": list("contract contract/runtime guest/limits.ts guest/system guest/users"),

  interpreter: list("contract work interpreter/runners"),
  "interpreter/runners": list(`
    contract work interpreter/kernel.ts interpreter/kernel-process.ts interpreter/random.ts
  `),

  mcp: list("contract"),

  host: list(`
    contract contract/runtime work blobs/blobs.ts host/system host/cgroup host/mount host/image host/relay host/network
    host/disk host/checkpoint host/guest-link host/runtime host/runtime/crun host/runtime/runsc host/sandbox host/shelf
    host/build host/volume
  `),
  "host/system": list("contract work host/limits.ts"),
  "host/cgroup": list("contract work host/limits.ts host/system"),
  "host/image": list("contract work host/limits.ts host/system host/mount host/disk"),
  "host/mount": list("contract work host/limits.ts host/system"),
  "host/relay": list("contract work http1 host/limits.ts host/host.ts host/system"),
  "host/network": list("contract work host/limits.ts host/host.ts host/system host/relay"),
  "host/disk": list("contract work host/limits.ts host/system host/mount host/network"),
  "host/volume": list("contract work host/limits.ts host/volume-content.ts host/system host/mount host/disk"),
  "host/checkpoint": list("contract work host/limits.ts host/host.ts host/system host/runtime"),
  "host/guest-link": list("contract contract/runtime work http1 host/limits.ts host/host.ts host/system host/mount"),
  "host/runtime": list("contract contract/runtime host/limits.ts host/system host/cgroup"),
  "host/runtime/crun": list(`
    contract contract/runtime work host/limits.ts host/system host/cgroup host/mount host/image
    host/network host/runtime
  `),
  "host/runtime/runsc": list(`
    contract contract/runtime host/limits.ts host/system host/cgroup host/runtime
  `),
  "host/sandbox": list(`
    contract contract/runtime work host/limits.ts host/host.ts host/system host/cgroup host/mount
    host/network host/disk host/checkpoint host/guest-link host/runtime host/image host/volume
  `),
  "host/shelf": list("contract work host/limits.ts host/host.ts host/system host/cgroup host/network host/sandbox"),
  "host/registry": list("contract work blobs/blobs.ts host/limits.ts host/host.ts host/system host/guest-link"),
  "host/build": list(`
    contract contract/runtime work blobs/blobs.ts host/limits.ts host/host.ts host/system
    host/network host/disk host/checkpoint host/guest-link host/runtime host/volume host/sandbox
    host/registry
  `),
  "host/tls": list("contract work host/limits.ts host/system"),
  "host/splice": list("work http1"),
  "host/setup": list(`
    contract contract/management contract/runtime work host/system host/cgroup host/mount host/image host/network
    host/registry host/disk host
  `),
  "host/doctor": list(`
    contract contract/management work host host/host.ts host/system host/cgroup host/mount host/image
    host/network host/guest-link host/setup host/tls
  `),

  control: list(`
    contract contract/management contract/runtime work store blobs/blobs.ts host/host.ts host/volume-content.ts control/access
    control/http control/routes control/lifecycle control/templates control/builds control/chronicle control/volumes
  `),
  "control/access": list("contract contract/management contract/runtime work store control/limits.ts"),
  "control/http": list("contract contract/management work store control/limits.ts control/access"),
  "control/volumes": list("contract contract/management work store host/host.ts control/limits.ts control/access"),
  "control/templates": list(`
    contract contract/management work store host/host.ts control/limits.ts control/access
    control/volumes
  `),
  "control/dockerfile": list("contract contract/management host/host.ts control/limits.ts"),
  "control/builds": list(`
    contract contract/management contract/runtime work store blobs/blobs.ts host/host.ts
    control/limits.ts control/access control/templates control/dockerfile
  `),
  "control/lifecycle": list(`
    contract contract/management contract/runtime work store host/host.ts control/limits.ts
    control/directory.ts control/access control/templates control/volumes
  `),
  "control/webhooks": list("contract contract/management work store control/limits.ts control/access"),
  "control/chronicle": list(`
    contract contract/management contract/runtime work store host/host.ts control/limits.ts
    control/access control/lifecycle control/webhooks
  `),
  "control/lists": list(`
    contract contract/management contract/runtime work store control/limits.ts control/access
    control/templates control/lifecycle control/webhooks control/volumes
  `),
  "control/routes": list(`
    contract contract/management contract/runtime work store host/volume-content.ts control/limits.ts
    control/access control/http control/lists control/templates control/builds control/lifecycle
    control/webhooks control/chronicle control/volumes
  `),

  edge: list("contract contract/management contract/runtime work http1 control/directory.ts"),
  cli: list(`
    contract contract/management work store blobs control control/access control/templates control/builds edge guest/published-limits.ts
    host host/system
    host/cgroup host/mount host/disk host/registry host/sandbox host/shelf host/setup host/doctor host/tls host/splice
  `),
};

function list(names: string): string[] {
  return names.trim().split(/\s+/);
}

/** Doors between rooms: interfaces, of which nothing is left when the program runs. */
const TYPES_ONLY: ReadonlySet<string> = new Set([
  "host/host.ts",
  "host/volume-content.ts",
  "control/directory.ts",
  "blobs/blobs.ts",
]);

/** Templates that come with Sandlot: data, which the command line hands to the rooms. */
const DEFINITIONS = "templates/definitions.ts";

const CONTRACT_PACKAGES: ReadonlySet<string> = new Set(["zod", "@bufbuild/protobuf"]);

/** Starting programs and calling the kernel, by oneself or through the one file that loads the C library. */
const PRIVILEGED = /\bbun:ffi\b|\bc-library\.ts\b|\bBun\.(?:spawn|spawnSync|\$)|\bchild_process\b/;
const PRIVILEGED_ROOMS: ReadonlySet<string> = new Set(["host", "guest", "interpreter", "mcp", "cli"]);
const LOADING = /\bdlopen\b/;
const LOADER = "src/work/c-library.ts";

/** `x.test.ts` beside what it tests, and what tests share in the folder `testing` of a room. */
const TEST_CODE = /\.test\.ts$|\/testing\//;

export interface Packages {
  dependencies: ReadonlySet<string>;
  devDependencies: ReadonlySet<string>;
}

export function isTestCode(path: string): boolean {
  return TEST_CODE.test(path);
}

/** One sentence for each breach of the rules. */
export function breaches(file: SourceFile, packages: Packages): string[] {
  if (roomOf(file.path) === undefined) return [`${file.path}: no rule says what this room may import`];
  const found = importsOf(file.text).flatMap(({ specifier, typeOnly }) => {
    const problem = specifier.startsWith(".")
      ? fileProblem(file.path, specifier, typeOnly)
      : packageProblem(file.path, specifier, packages);
    return problem === undefined ? [] : [`${file.path} imports ${specifier}: ${problem}`];
  });
  if (isTestCode(file.path) || file.path === LOADER) return found;
  if (!PRIVILEGED_ROOMS.has(topOf(file.path)) && PRIVILEGED.test(file.text)) {
    found.push(`${file.path}: only ${[...PRIVILEGED_ROOMS].join(", ")} may start programs or call the kernel`);
  }
  if (LOADING.test(file.text)) found.push(`${file.path}: libraries are loaded by ${LOADER} only`);
  return found;
}

/** Rooms that lead back to themselves by what they may import, each as its way around. */
export function circlesOfRooms(): string[] {
  return circlesIn(new Map(Object.entries(MAY_IMPORT)));
}

/** Files that lead back to themselves by what they import, types included. */
export function circlesOfFiles(files: readonly SourceFile[]): string[] {
  const targets = ({ path, text }: SourceFile) =>
    importsOf(text)
      .filter(({ specifier }) => specifier.startsWith("."))
      .map(({ specifier }) => normalize(join(dirname(path), specifier)));
  return circlesIn(new Map(files.map((file) => [file.path, targets(file)])));
}

function circlesIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (node: string, way: readonly string[]): void => {
    if (way.includes(node)) {
      found.push([...way.slice(way.indexOf(node)), node].join(" → "));
      return;
    }
    if (done.has(node)) return;
    for (const next of graph.get(node) ?? []) visit(next, [...way, node]);
    done.add(node);
  };
  for (const node of graph.keys()) visit(node, []);
  return found;
}

function fileProblem(path: string, specifier: string, typeOnly: boolean): string | undefined {
  const target = normalize(join(dirname(path), specifier));
  if (target === DEFINITIONS && topOf(path) === "cli") return undefined;
  if (!target.startsWith("src/")) return "it lies outside of src";
  if (isTestCode(target)) return isTestCode(path) ? undefined : "code that runs must not need test code";
  const inner = target.slice("src/".length);
  const room = roomOf(path) ?? "";
  // Tests may look at everything in their own house; what another one shows goes for them, too.
  if (roomOf(target) === room || (isTestCode(path) && topOf(target) === topOf(path))) return undefined;
  const allowed = isTestCode(path) ? allowedAnywhereIn(topOf(path)) : (MAY_IMPORT[room] ?? []);
  if (!allowed.some((entry) => (entry.endsWith(".ts") ? inner === entry : roomOf(target) === entry))) {
    return `${room} may import ${allowed.length === 0 ? "nothing" : allowed.join(", ")}`;
  }
  if (topOf(path) !== topOf(target) && topOf(path) !== "cli" && TYPES_ONLY.has(inner) && !typeOnly) {
    return "it is an interface; use import type";
  }
  return undefined;
}

function allowedAnywhereIn(top: string): string[] {
  return Object.entries(MAY_IMPORT).flatMap(([room, allowed]) => (room.split("/")[0] === top ? allowed : []));
}

function packageProblem(path: string, specifier: string, packages: Packages): string | undefined {
  if (specifier === "bun:test") return isTestCode(path) ? undefined : "code that runs must not need test code";
  const name = packageName(specifier);
  if (topOf(path) === "contract") {
    return CONTRACT_PACKAGES.has(name) ? undefined : `contract may use ${[...CONTRACT_PACKAGES].join(" and ")} only`;
  }
  // Among the dependencies for the examples.
  if (/^(?:@e2b\/|e2b$)/.test(name)) return isTestCode(path) ? undefined : "the server must not need its clients";
  if (/^(?:node:|bun$|bun:)/.test(specifier) || packages.dependencies.has(name)) return undefined;
  if (isTestCode(path) && packages.devDependencies.has(name)) return undefined;
  return "it is not among the dependencies in package.json";
}

function packageName(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/**
 * `src/host/runtime/crun/criu.ts` is in `host/runtime/crun`, `src/guest/filesystem/watching/watch.ts` in
 * `guest/filesystem`.
 */
function roomOf(path: string): string | undefined {
  for (let folder = dirname(path.slice("src/".length)); folder !== "."; folder = dirname(folder)) {
    if (MAY_IMPORT[folder] !== undefined) return folder;
  }
  return undefined;
}

function topOf(path: string): string {
  return path.split("/")[1] ?? "";
}
