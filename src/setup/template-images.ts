/**
 * Makes root filesystems of built-in templates for a running server. A separate process (template-image-program.ts)
 * holds the lock of the cache folder meanwhile and ends with its parent. The next one starts incomplete work again.
 */
import { join } from "node:path";
import { boundedLines } from "../base/bounded-lines.ts";
import { Fault } from "../contract/fault.ts";
import type { TemplateDefinition } from "../contract/template-definition.ts";
import { MINIMAL_ENV } from "../system/command.ts";
import { templateImage, templateImageSteps, templateImages } from "./template-image.ts";

/** Maximum length of an output line of the program, and of its text in the log of a build. */
const IMAGE_PROGRAM_LINE_MAX_BYTES = 1024 * 1024;
const IMAGE_PROGRAM_TEXT_MAX_CHARS = 4096;

const PROGRAM = join(import.meta.dir, "template-image-program.ts");

export interface ImageTask {
  cacheFolder: string;
  debianMirror: string | null;
  definition: TemplateDefinition;
}

/** A line of the program's output in JSON; `failed` is its last. */
export interface ProgramOutput {
  kind: "line" | "failed";
  text: string;
  status?: number;
}

interface Places {
  cacheFolder: string;
  debianMirror: string | undefined;
}

export class TemplateImages {
  constructor(
    private readonly places: Places,
    private readonly definitions: readonly TemplateDefinition[],
  ) {}

  /** Images of all definitions with their parents; some may not exist yet. Reads the sources of all. */
  current(): string[] {
    return this.definitions.flatMap(templateImages);
  }

  /** Makes an image for a build and returns its name when it is complete. */
  async make(template: string, signal: AbortSignal, say: (message: string) => void): Promise<string> {
    const definition = this.definitions.find(({ name }) => name === template);
    if (definition === undefined) throw new Fault(404, `no template ${JSON.stringify(template)} comes with Sandlot`);
    const { cacheFolder, debianMirror } = this.places;
    const image = templateImage(definition);
    const steps = templateImageSteps(cacheFolder, debianMirror, definition);
    if (steps.some((step) => !step.done())) {
      await runProgram({ cacheFolder, debianMirror: debianMirror ?? null, definition }, signal, say);
    }
    if (steps.some((step) => !step.done())) {
      throw new Fault(
        500,
        `the root filesystem of ${template} was made from other sources than those that this server was started from. ` +
          "FIX: start the server again",
      );
    }
    return image;
  }
}

async function runProgram(task: ImageTask, signal: AbortSignal, say: (message: string) => void): Promise<void> {
  signal.throwIfAborted();
  const child = Bun.spawn([process.execPath, PROGRAM, JSON.stringify(task)], {
    // Closing this pipe ends the program and its children, also when this process is killed.
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
    env: { ...MINIMAL_ENV },
    // A session of its own, so that it can end all its children.
    detached: true,
  });
  const end = () => void child.stdin.end();
  signal.addEventListener("abort", end, { once: true });
  try {
    let failure: ProgramOutput | undefined;
    for await (const line of boundedLines(child.stdout, IMAGE_PROGRAM_LINE_MAX_BYTES)) {
      const word = JSON.parse(line) as ProgramOutput;
      if (word.kind === "failed") failure = word;
      else say(word.text.slice(0, IMAGE_PROGRAM_TEXT_MAX_CHARS));
    }
    const exitCode = await child.exited;
    signal.throwIfAborted();
    if (failure !== undefined) throw new Fault(failure.status ?? 500, failure.text);
    if (exitCode !== 0) throw new Fault(500, `the program that makes images ended with ${exitCode}`);
  } finally {
    signal.removeEventListener("abort", end);
    end();
  }
}
