/**
 * Who may import whom. docs/architecture.md shows the same directions to people. A file that has to break this table is in
 * the wrong room.
 */
import { dirname, join, normalize } from "node:path/posix";
import { importsOf, type SourceFile } from "./source-files.ts";

/** Besides itself. What ends in a slash is a room, all else a single file. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  store: ["contract/"],
  host: ["contract/"],
  guest: ["contract/"],
  control: ["contract/", "store/", "host/host.ts"],
  edge: ["contract/", "control/directory.ts"],
  cli: ["contract/", "store/", "host/", "guest/", "control/", "edge/"],
};

/** Doors between rooms: interfaces, of which nothing is left when the program runs. */
const TYPES_ONLY: ReadonlySet<string> = new Set(["host/host.ts", "control/directory.ts"]);

/** Stands in for a machine in the tests of other rooms. */
const TEST_DOUBLE = "host/memory-host.ts";

const CONTRACT_PACKAGES: ReadonlySet<string> = new Set(["zod", "@bufbuild/protobuf"]);

/** Starting programs and calling the kernel. */
const PRIVILEGED = /\bbun:ffi\b|\bBun\.(?:spawn|spawnSync|\$)|\bchild_process\b/;
const PRIVILEGED_ROOMS: ReadonlySet<string> = new Set(["host", "guest", "cli"]);

const TEST_CODE = /\.test\.ts$|fixture[^/]*\.ts$|\/testing\/|-under-test\.ts$|\/manual-clock\.ts$|\/memory-host\.ts$/;

export interface Packages {
  dependencies: ReadonlySet<string>;
  devDependencies: ReadonlySet<string>;
}

export function isTestCode(path: string): boolean {
  return TEST_CODE.test(path);
}

/** One sentence for each breach of the rules. */
export function breaches(file: SourceFile, packages: Packages): string[] {
  const room = roomOf(file.path);
  if (MAY_IMPORT[room] === undefined) return [`${file.path}: no rule says what the room "${room}" may import`];
  const found = importsOf(file.text).flatMap(({ specifier, typeOnly }) => {
    const problem = specifier.startsWith(".")
      ? fileProblem(file.path, specifier, typeOnly)
      : packageProblem(file.path, specifier, packages);
    return problem === undefined ? [] : [`${file.path} imports ${specifier}: ${problem}`];
  });
  if (!isTestCode(file.path) && !PRIVILEGED_ROOMS.has(room) && PRIVILEGED.test(file.text)) {
    found.push(`${file.path}: only ${[...PRIVILEGED_ROOMS].join(", ")} may start programs or call the kernel`);
  }
  return found;
}

function fileProblem(path: string, specifier: string, typeOnly: boolean): string | undefined {
  const target = normalize(join(dirname(path), specifier));
  if (!target.startsWith("src/")) return "it lies outside of src";
  const inner = target.slice("src/".length);
  if (isTestCode(target) && !isTestCode(path)) return "code that runs must not need test code";
  const [room, targetRoom] = [roomOf(path), roomOf(target)];
  if (room === targetRoom) return undefined;
  if (isTestCode(path) && inner === TEST_DOUBLE) return undefined;
  const allowed = MAY_IMPORT[room] ?? [];
  if (!allowed.some((entry) => (entry.endsWith("/") ? inner.startsWith(entry) : inner === entry))) {
    return `${room} may import ${allowed.length === 0 ? "nothing" : allowed.join(", ")}`;
  }
  if (room !== "cli" && TYPES_ONLY.has(inner) && !typeOnly) return "it is an interface; use import type";
  return undefined;
}

function packageProblem(path: string, specifier: string, packages: Packages): string | undefined {
  if (specifier === "bun:test") return isTestCode(path) ? undefined : "code that runs must not need test code";
  const name = packageName(specifier);
  if (roomOf(path) === "contract") {
    return CONTRACT_PACKAGES.has(name) ? undefined : `contract may use ${[...CONTRACT_PACKAGES].join(" and ")} only`;
  }
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

function roomOf(path: string): string {
  return path.split("/")[1] ?? "";
}
