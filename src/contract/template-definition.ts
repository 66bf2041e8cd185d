/**
 * A template that comes with Sandlot, as data: what its root filesystem is made of, and what runs in its sandboxes from
 * the start. Definitions are in `templates/`, one folder each.
 */
export interface TemplateDefinition {
  /** What clients ask for; public on every server. Also the name of its folder in `templates/`. */
  name: string;
  /** Of its row, the same on every server: 20 of [a-z0-9]. */
  id: string;
  /** One line for people: what it is for. */
  description: string;
  /** Debian packages, beside those of `base`. */
  packages: readonly string[];
  /** Lines for the shell, run by root in the root filesystem of these packages, without a network. */
  finish: readonly string[];
  /** Another template, whose files are in this one, too; of two at the same path, this one's is. */
  filesAlsoOf?: string;
  /** npm packages by `package.json` and `package-lock.json` in this folder of the definition. */
  npm?: NpmPackages;
  /**
   * Programs of this project, bundled, by the path at which they are in the sandbox: for Node where the name ends in
   * `.mjs`, for Bun otherwise. With any, Bun is there, at `BUN_IN_TEMPLATE`.
   */
  programs: Readonly<Record<string, string>>;
  /** Null: sandboxes boot. */
  start: { command: string; ready: string } | null;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
}

interface NpmPackages {
  /** Beside the definition. */
  folder: string;
  /** Where `node_modules` comes to be, absolute. */
  target: string;
}

/** Where Bun is in templates whose programs need it. */
export const BUN_IN_TEMPLATE = "/opt/sandlot/bin/bun";
/** Below the folder of a definition: files that are there as they are, at the same path in the sandbox. */
export const FILES_OF_TEMPLATE = "files";
