/**
 * Root filesystems of the templates that come with Sandlot, for a server that runs: made by a process of its own
 * (template-image-program.ts), which holds the lock of the cache folder meanwhile, and ends with the one who started
 * it. What it had begun is begun anew by the next.
 */
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import type { TemplateDefinition } from "../contract/template-definition.ts";
import { MINIMAL_ENV } from "../system/command.ts";
import { lines } from "./packages.ts";
import { templateImage, templateImageSteps, templateImages } from "./template-image.ts";

/** Of a line that the program says which makes root filesystems of templates. */
const IMAGE_PROGRAM_LINE_MAX_CHARS = 4096;

const PROGRAM = join(import.meta.dir, "template-image-program.ts");

/** What the program is told, as its one argument. */
export interface ImageTask {
  cacheFolder: string;
  debianMirror: string | null;
  definition: TemplateDefinition;
}

/** What it says, a line of JSON each; `failed` is its last. */
export interface ImageWord {
  kind: "line" | "failed";
  text: string;
  status?: number;
}

interface Places {
  cacheFolder: string;
  debianMirror: string | undefined;
}

export class TemplateImages {
  readonly #places: Places;
  readonly #definitions: readonly TemplateDefinition[];

  constructor(places: Places, definitions: readonly TemplateDefinition[]) {
    this.#places = places;
    this.#definitions = definitions;
  }

  /** Of all definitions, with what they are stacked on; some may not be made. Reads the sources of all. */
  current(): string[] {
    return this.#definitions.flatMap(templateImages);
  }

  /** As builds ask for it: answers the name of the image, once it is whole. */
  async make(template: string, signal: AbortSignal, say: (message: string) => void): Promise<string> {
    const definition = this.#definitions.find(({ name }) => name === template);
    if (definition === undefined) throw new Fault(404, `no template ${JSON.stringify(template)} comes with Sandlot`);
    const { cacheFolder, debianMirror } = this.#places;
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
    // It ends, with all that it has started, once nobody has the other end: also when this process is killed.
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
    env: { ...MINIMAL_ENV },
    // A session of its own, so that it can end all that it has started.
    detached: true,
  });
  const end = () => void child.stdin.end();
  signal.addEventListener("abort", end, { once: true });
  try {
    let failure: ImageWord | undefined;
    const hear = lines((line) => {
      const word = read(line);
      if (word.kind === "failed") failure = word;
      else say(word.text);
    });
    const [, stderr, exitCode] = await Promise.all([take(child.stdout, hear), tailOf(child.stderr), child.exited]);
    signal.throwIfAborted();
    if (failure !== undefined) throw new Fault(failure.status ?? 500, failure.text);
    if (exitCode !== 0) throw new Fault(500, `the program that makes images ended with ${exitCode}: ${stderr}`);
  } finally {
    signal.removeEventListener("abort", end);
    end();
  }
}

function read(line: string): ImageWord {
  try {
    const word = JSON.parse(line) as ImageWord;
    return { ...word, text: word.text.slice(0, IMAGE_PROGRAM_LINE_MAX_CHARS) };
  } catch {
    return { kind: "line", text: line.slice(0, IMAGE_PROGRAM_LINE_MAX_CHARS) };
  }
}

async function take(stream: ReadableStream<Uint8Array>, hear: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of stream) hear(decoder.decode(chunk, { stream: true }));
}

async function tailOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  let tail = "";
  await take(stream, (text) => {
    tail = (tail + text).slice(-IMAGE_PROGRAM_LINE_MAX_CHARS);
  });
  return tail.trim();
}
