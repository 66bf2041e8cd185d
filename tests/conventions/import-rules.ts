/**
 * The import rules: which module may import which. docs/architecture.md shows the same table. A file that breaks a rule
 * is in the wrong module.
 */
import { dirname, join, normalize } from "node:path/posix";
import { importsOf, type SourceFile } from "./source-files.ts";

/**
 * What each module may import besides itself. A file belongs to the module with the longest matching path. An entry
 * that ends in `.ts` is a single file; every other entry is a module without the modules inside it.
 */
export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  "contract/management": list(`
    contract/domain-pattern.ts contract/ip-range.ts contract/ids.ts contract/sandbox-log.ts contract/quoted-text.ts
    contract/runtime/version.ts contract/header-placeholders.ts contract/connection-headers.ts
  `),
  "contract/runtime": [],
  "contract/internal": list(`
    contract/egress.ts contract/request-id.ts contract/sandbox-log.ts contract/runtime-name.ts
    contract/runtime/file-signature.ts
  `),

  base: list("contract"),

  http1: [],

  store: list("contract base"),

  fleet: list("contract base store"),

  blobs: list("contract base"),

  guest: list(`
    contract contract/runtime base guest/system guest/users guest/rpc guest/file-tree guest/journal guest/files
    guest/filesystem guest/process guest/programs
  `),
  "guest/system": list("contract contract/runtime base guest/limits.ts"),
  "guest/users": list("contract contract/runtime base guest/limits.ts guest/system"),
  "guest/rpc": list("contract contract/runtime guest/limits.ts guest/system guest/users"),
  "guest/file-tree": list("contract/runtime base guest/limits.ts guest/system guest/users"),
  "guest/journal": list("contract contract/runtime base guest/system"),
  "guest/files": list("contract base guest/limits.ts guest/system guest/users guest/file-tree"),
  "guest/filesystem": list(`
    contract contract/runtime base guest/limits.ts guest/system guest/users guest/rpc guest/file-tree guest/journal
  `),
  "guest/process": list(`
    contract contract/runtime base guest/limits.ts guest/system guest/users guest/rpc guest/journal
  `),
  "guest/programs": list("contract contract/runtime base guest/limits.ts guest/system guest/users"),

  interpreter: list("contract base interpreter/runners"),
  "interpreter/runners": list("contract base interpreter/kernel-process.ts interpreter/kernel.ts"),

  mcp: list("contract base"),

  system: list("contract base"),
  "system/cgroup": list("contract base system/data-folder.ts system/page-size.ts"),
  "system/mount": list(`
    contract base system/command.ts system/data-folder.ts system/id-range.ts system/job-thread.ts system/mount-calls.ts
    system/page-size.ts system/syscalls.ts system/user-namespace.ts
  `),
  "system/net": list("contract base system/command.ts system/data-folder.ts"),

  images: list("contract base system system/mount images/disk"),
  "images/disk": list("contract base system system/mount"),

  egress: list("contract contract/internal base http1 system"),

  sandbox: list(`
    contract contract/runtime contract/internal base system system/cgroup system/mount images images/disk
    sandbox/network sandbox/checkpoint sandbox/guest-link sandbox/runtime sandbox/volume
  `),
  "sandbox/network": list("contract contract/internal base system system/net egress"),
  "sandbox/checkpoint": list("contract contract/internal base system sandbox/limits.ts sandbox/runtime"),
  "sandbox/guest-link": list(`
    contract contract/runtime contract/internal base system system/mount sandbox/limits.ts
  `),
  "sandbox/runtime": list("contract contract/runtime system system/cgroup sandbox/limits.ts"),
  "sandbox/runtime/crun": list(`
    contract contract/runtime base system system/cgroup system/mount system/net images sandbox/limits.ts
    sandbox/network sandbox/runtime/cpu-features.ts sandbox/runtime/guest-process.ts sandbox/runtime/runtime.ts
    sandbox/runtime/tool-log.ts sandbox/runtime/tool-work.ts sandbox/runtime/volume-fault.ts
  `),
  "sandbox/runtime/runsc": list(`
    contract contract/runtime base system system/cgroup sandbox/limits.ts sandbox/runtime/cpu-features.ts
    sandbox/runtime/guest-process.ts sandbox/runtime/runtime.ts sandbox/runtime/tool-log.ts
    sandbox/runtime/tool-work.ts sandbox/runtime/volume-fault.ts
  `),
  "sandbox/volume": list("contract contract/internal base system system/mount images images/disk"),
  "sandbox/pool": list(`
    contract contract/internal base system system/cgroup sandbox/running-sandboxes.ts sandbox/starting.ts
    sandbox/network
  `),

  builder: list(`
    contract contract/runtime contract/internal base blobs/blobs.ts system images images/disk sandbox sandbox/network
    sandbox/checkpoint sandbox/guest-link sandbox/runtime sandbox/volume builder/registry
  `),
  "builder/registry": list(`
    contract contract/internal base blobs/blobs.ts system sandbox/guest-link builder/limits.ts
  `),

  host: list(`
    contract contract/runtime contract/internal base blobs/blobs.ts system system/cgroup system/mount system/net images
    images/disk egress sandbox sandbox/network sandbox/checkpoint sandbox/guest-link sandbox/runtime sandbox/runtime/crun
    sandbox/runtime/runsc sandbox/volume sandbox/pool builder builder/registry tls
  `),

  backup: list(`
    contract base store system system/mount images images/disk sandbox/checkpoint sandbox/volume setup
  `),

  setup: list(`
    contract contract/management contract/runtime base system system/cgroup system/mount images images/disk
    sandbox/network builder/registry host
  `),
  "setup/doctor": list(`
    contract contract/management contract/internal base system system/cgroup system/mount system/net images
    sandbox/network sandbox/guest-link host setup/base-image.ts setup/host-changes.ts setup/packages.ts
    setup/teardown.ts tls
  `),

  tls: list("contract base system"),

  control: list(`
    contract contract/management contract/internal base store blobs/blobs.ts control/access control/audit
    control/budgets control/http control/volumes control/templates control/dockerfile control/builds control/lifecycle control/webhooks
    control/activity control/login control/secrets control/routes
  `),
  "control/access": list(`
    contract contract/management contract/runtime base store control/parts.ts control/audit
  `),
  "control/audit": list("base store control/parts.ts"),
  "control/budgets": list("contract base control/access"),
  "control/http": list(`
    contract contract/management base store control/limits.ts control/parts.ts control/access control/audit
    control/budgets
  `),
  "control/login": list(`
    contract contract/management base store control/parts.ts control/access control/audit control/budgets control/http
  `),
  "control/volumes": list(`
    contract contract/management contract/internal base store control/parts.ts control/access
  `),
  "control/templates": list(`
    contract contract/management contract/internal base store control/ids.ts control/parts.ts control/access control/audit
    control/volumes
  `),
  "control/dockerfile": list("contract contract/management contract/internal base"),
  "control/builds": list(`
    contract contract/management contract/runtime contract/internal base store blobs/blobs.ts control/limits.ts
    control/parts.ts control/store-retry.ts control/access control/templates control/dockerfile
  `),
  "control/lifecycle": list(`
    contract contract/management contract/runtime contract/internal base store control/ids.ts control/limits.ts
    control/parts.ts control/store-retry.ts control/access control/volumes control/templates
  `),
  "control/webhooks": list("contract contract/management base store control/limits.ts control/parts.ts control/access"),
  "control/activity": list(`
    contract contract/management contract/internal base store control/limits.ts control/parts.ts control/access
    control/budgets control/lifecycle control/webhooks
  `),
  "control/secrets": list(`
    contract contract/management contract/internal base store control/parts.ts control/access control/budgets control/http
  `),
  "control/views": list(`
    contract contract/management contract/runtime contract/internal store control/templates control/lifecycle
  `),
  "control/routes": list(`
    contract contract/management contract/internal base store control/limits.ts control/parts.ts control/access
    control/audit control/http control/volumes control/templates control/builds control/lifecycle control/webhooks
    control/activity control/secrets control/views
  `),

  metrics: list("contract contract/internal base"),

  edge: list(`
    contract contract/internal contract/runtime base http1 edge/flow edge/front edge/routing edge/proxy
  `),
  "edge/flow": list("edge/limits.ts"),
  "edge/front": list("contract http1 edge/limits.ts edge/request-trace.ts edge/flow"),
  "edge/routing": list("contract contract/internal contract/runtime http1 edge/limits.ts edge/refusal.ts edge/flow"),
  "edge/proxy": list(`
    contract contract/management contract/runtime base http1 edge/limits.ts edge/flow edge/front edge/routing
  `),
  "edge/splice": list("base http1"),
  "edge/process": list("contract contract/internal base edge edge/front edge/routing edge/proxy"),

  bundle: list("contract base system images setup builder/registry"),

  cli: list("contract base store system setup control control/audit cli/settings cli/commands cli/server"),
  "cli/settings": list(`
    contract base builder/registry host control/budgets control/builds control/login control/templates edge
  `),
  "cli/server": list(`
    contract contract/management contract/internal base store fleet blobs system system/cgroup system/mount images/disk
    builder/registry host setup tls control control/access control/secrets control/templates edge edge/front edge/routing
    edge/splice edge/process metrics cli/folder-store.ts cli/prepare.ts cli/progress.ts cli/server-file.ts cli/settings
  `),
  "cli/commands": list(`
    contract contract/management base store guest/published-limits.ts system system/cgroup system/mount images/disk
    sandbox/pool host backup bundle setup setup/doctor tls control control/access control/audit control/builds
    control/secrets control/templates control/views edge cli/admin-client.ts cli/folder-store.ts cli/iso-time.ts
    cli/prepare.ts cli/print-list.ts cli/progress.ts cli/server-file.ts cli/with-store.ts cli/settings cli/server
  `),
};

function list(names: string): string[] {
  return names.trim().split(/\s+/);
}

/** Interfaces between modules that are not in `contract/internal`: other modules import their types only. */
const TYPES_ONLY: ReadonlySet<string> = new Set(["blobs/blobs.ts"]);

/** Built-in templates: data that the command line passes to the modules. */
const DEFINITIONS = "templates/definitions.ts";

const CONTRACT_PACKAGES: ReadonlySet<string> = new Set(["zod", "@bufbuild/protobuf"]);

/** Starting programs and calling the kernel, by oneself or through the one file that loads the C library. */
const PRIVILEGED = /\bbun:ffi\b|\bc-library\.ts\b|\bBun\.(?:spawn|spawnSync|\$)|\bchild_process\b/;
const PRIVILEGED_MODULES: readonly string[] = list(
  "system images egress sandbox builder host setup tls edge/splice guest interpreter mcp cli",
);
const LOADING = /\bdlopen\b|\bptr\b[^;]*"bun:ffi"/;
const LOADER = "src/base/c-library.ts";

/** Test code: `x.test.ts` beside the file it tests, and shared test code in a module's folder `testing`. */
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
  if (moduleOf(file.path) === undefined) return [`${file.path}: no rule says what this module may import`];
  const found = importsOf(file.text).flatMap(({ specifier, typeOnly }) => {
    const problem = specifier.startsWith(".")
      ? fileProblem(file.path, specifier, typeOnly)
      : packageProblem(file.path, specifier, packages);
    return problem === undefined ? [] : [`${file.path} imports ${specifier}: ${problem}`];
  });
  if (isTestCode(file.path) || file.path === LOADER) return found;
  if (!isPrivileged(file.path) && PRIVILEGED.test(file.text)) {
    found.push(`${file.path}: only ${PRIVILEGED_MODULES.join(", ")} may start programs or call the kernel`);
  }
  if (LOADING.test(file.text)) found.push(`${file.path}: libraries are loaded, and addresses taken, by ${LOADER} only`);
  return found;
}

/** Modules that may import themselves through others, each as its cycle. */
export function moduleCycles(): string[] {
  return cyclesIn(new Map(Object.entries(MAY_IMPORT)));
}

/** Files that import themselves through others, types included. */
export function fileCycles(files: readonly SourceFile[]): string[] {
  const targets = ({ path, text }: SourceFile) =>
    importsOf(text)
      .filter(({ specifier }) => specifier.startsWith("."))
      .map(({ specifier }) => normalize(join(dirname(path), specifier)));
  return cyclesIn(new Map(files.map((file) => [file.path, targets(file)])));
}

function cyclesIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
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
  // The command line connects all modules, so its tests may import all of them; all tests may import the contract.
  if (isTestCode(path) && (topOf(path) === "cli" || topOf(target) === "contract")) return undefined;
  const inner = target.slice("src/".length);
  const module = moduleOf(path) ?? "";
  // Tests may import everything of their own module, and what any part of it may import.
  if (moduleOf(target) === module || (isTestCode(path) && topOf(target) === topOf(path))) return undefined;
  const allowed = isTestCode(path) ? allowedAnywhereIn(topOf(path)) : (MAY_IMPORT[module] ?? []);
  if (!allowed.some((entry) => (entry.endsWith(".ts") ? inner === entry : moduleOf(target) === entry))) {
    return `${module} may import ${allowed.length === 0 ? "nothing" : allowed.join(", ")}`;
  }
  if (topOf(path) !== topOf(target) && topOf(path) !== "cli" && TYPES_ONLY.has(inner) && !typeOnly) {
    return "it is an interface; use import type";
  }
  return undefined;
}

function allowedAnywhereIn(top: string): string[] {
  return Object.entries(MAY_IMPORT).flatMap(([module, allowed]) => (module.split("/")[0] === top ? allowed : []));
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
 * `src/sandbox/runtime/crun/criu.ts` is in `sandbox/runtime/crun`, `src/guest/filesystem/watching/watch.ts` in
 * `guest/filesystem`.
 */
function moduleOf(path: string): string | undefined {
  for (let folder = dirname(path.slice("src/".length)); folder !== "."; folder = dirname(folder)) {
    if (MAY_IMPORT[folder] !== undefined) return folder;
  }
  return undefined;
}

function isPrivileged(path: string): boolean {
  return PRIVILEGED_MODULES.some((name) => path.startsWith(`src/${name}/`));
}

function topOf(path: string): string {
  return path.split("/")[1] ?? "";
}
