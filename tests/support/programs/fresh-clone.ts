/**
 * A clone of the project as the first `npm start` leaves it: the examples, and the packages without development
 * packages. Packages are links into the project's own, so a clone takes milliseconds and no network.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PROJECT, readText } from "../../conventions/source-files.ts";

interface Lock {
  packages: Record<string, { dev?: boolean; devOptional?: boolean }>;
}

export class FreshClone implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), "sandlot-clone-"));

  constructor() {
    for (const name of ["examples", "package.json"]) {
      cpSync(join(PROJECT, name), join(this.folder, name), { recursive: true });
    }
    const { packages } = JSON.parse(readText("package-lock.json")) as Lock;
    for (const [path, { dev, devOptional }] of Object.entries(packages)) {
      const isTopLevel = /^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(path);
      if (!isTopLevel || dev || devOptional || !existsSync(join(PROJECT, path))) continue;
      mkdirSync(dirname(join(this.folder, path)), { recursive: true });
      symlinkSync(join(PROJECT, path), join(this.folder, path));
    }
  }

  /** The output of a Node program started here. */
  async run(command: readonly string[], env: Record<string, string>, timeoutMs: number): Promise<string> {
    const child = Bun.spawn([...command], {
      cwd: this.folder,
      // Else Node looks for the packages of a package beside the link's target, where those for development are, too.
      env: { PATH: process.env.PATH ?? "", NODE_PRESERVE_SYMLINKS: "1", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: timeoutMs,
    });
    const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    if ((await child.exited) === 0) return stdout;
    throw new Error(`${command.join(" ")} failed or did not end:\n${stdout}\n${stderr}`);
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
