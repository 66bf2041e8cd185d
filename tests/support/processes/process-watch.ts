/** Watches the arguments and environments of all processes of the machine (watch-program.ts). */
import { join } from "node:path";
import { until } from "../until.ts";

export interface Place {
  pid: number;
  where: "cmdline" | "environ";
  text: string;
  command: string;
  /** Whether the process is in its own pid namespace, as all processes of a sandbox are. */
  nested: boolean;
}

export class ProcessWatch implements AsyncDisposable {
  readonly found: Place[] = [];
  readonly #child = Bun.spawn([process.execPath, join(import.meta.dir, "watch-program.ts")], {
    stdio: ["pipe", "pipe", "inherit"],
    env: {},
  });
  /** How often all processes were looked at. */
  #looks = 0;

  static async start(texts: readonly string[]): Promise<ProcessWatch> {
    const watch = new ProcessWatch();
    void watch.#hear();
    await watch.tell(texts);
    return watch;
  }

  /** Looks for these, too, from now on; resolves when it has looked at all processes anew. */
  async tell(texts: readonly string[]): Promise<void> {
    const already = this.#looks;
    this.#child.stdin.write(texts.map((text) => `${text}\n`).join(""));
    await this.#child.stdin.flush();
    await until("all processes are looked at", () => this.#looks > already + 2);
  }

  async #hear(): Promise<void> {
    let rest = "";
    const decoder = new TextDecoder();
    for await (const piece of this.#child.stdout) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "looked") this.#looks += 1;
        else this.found.push(JSON.parse(line));
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }
}
