/**
 * A built-in template as data: the content of its root filesystem, and the processes that run in its sandboxes from the
 * start. Definitions are in `templates/`, one folder each.
 */
export interface TemplateDefinition {
  /** The name that clients use; public on every server. Also the name of its folder in `templates/`. */
  name: string;
  /** Id of its row, the same on every server: 20 of [a-z0-9]. */
  id: string;
  /** One line that says what it is for. */
  description: string;
  /** Debian packages in addition to those of `base`. */
  packages: readonly string[];
  /** Shell commands, run by root in the root filesystem of these packages, without a network. */
  finish: readonly string[];
  /** Another template whose files this one includes. At the same path, this template's file wins. */
  filesAlsoOf?: string;
  /** Targets of symbolic links, by their path from the root of the filesystem. npm would drop links among the files. */
  links?: Readonly<Record<string, string>>;
  /** npm packages of `package.json` and `package-lock.json` in this folder of the definition. */
  npm?: NpmPackages;
  /**
   * Bundled programs of this project, by their path in the sandbox: for Node if the name ends in `.mjs`, otherwise for
   * Bun. If there are any, Bun is at `BUN_IN_TEMPLATE`.
   */
  programs: Readonly<Record<string, string>>;
  /** Null: sandboxes boot. */
  start: { command: string; ready: string } | null;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
}

interface NpmPackages {
  /** Inside the folder of the definition. */
  folder: string;
  /** Absolute path of the folder that gets `node_modules`. */
  target: string;
}

/** Path of Bun in templates whose programs need it. */
export const BUN_IN_TEMPLATE = "/opt/sandlot/bin/bun";
/** Below the folder of a definition: files copied to the same path in the sandbox. */
export const FILES_OF_TEMPLATE = "files";
