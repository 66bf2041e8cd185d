/** All contexts in order of creation, and the default context of each language. */
import { kernelUuid } from "../base/kernel-random.ts";
import { Fault } from "../contract/fault.ts";
import { Context } from "./context.ts";
import type { Language } from "./kernel.ts";
import { HOME_FOLDER, type Kernels } from "./kernels.ts";

/** Each context is a process; memory usually runs out long before this. */
export const CONTEXTS_MAX = 500;
const DEFAULT_LANGUAGE = "python";
const OTHER_NAMES: Readonly<Record<string, string>> = { js: "javascript", ts: "typescript" };

export class Contexts {
  readonly #languages: ReadonlyMap<string, Language>;
  readonly #contexts = new Map<string, Context>();
  /** By language. Concurrent first uses wait for the same context. */
  readonly #defaults = new Map<string, Promise<Context>>();
  #opening = 0;

  constructor(
    languages: readonly Language[],
    private readonly kernels: Kernels,
  ) {
    this.#languages = new Map(languages.map((language) => [language.name, language]));
  }

  all(): Context[] {
    return [...this.#contexts.values()];
  }

  /** Fault 404: no such context. */
  byId(id: string): Context {
    const context = this.#contexts.get(id);
    if (context === undefined)
      throw new Fault(404, `Context ${id} not found; GET /contexts lists those that there are`);
    return context;
  }

  /** Creates the default context on first use, and again after its removal. */
  defaultOf(languageName: string | null | undefined): Promise<Context> {
    const language = this.#language(languageName);
    const known = this.#defaults.get(language.name);
    if (known !== undefined) return known;
    const made = this.#open(language, HOME_FOLDER);
    this.#defaults.set(language.name, made);
    made.catch(() => this.#defaults.delete(language.name));
    return made;
  }

  async create(languageName: string | null | undefined, folder: string | null | undefined): Promise<Context> {
    return await this.#open(this.#language(languageName), folder || HOME_FOLDER);
  }

  async remove(id: string): Promise<void> {
    const context = this.byId(id);
    this.#contexts.delete(id);
    const name = context.language.name;
    if ((await this.#defaults.get(name)) === context) this.#defaults.delete(name);
    await context.remove();
  }

  #language(name: string | null | undefined): Language {
    const wanted = (name || DEFAULT_LANGUAGE).trim().toLowerCase();
    const language = this.#languages.get(OTHER_NAMES[wanted] ?? wanted);
    if (language !== undefined) return language;
    const known = [...this.#languages.keys()].join(", ");
    throw new Fault(500, `No kernel for the language ${JSON.stringify(name)} is installed; there are ${known}`);
  }

  async #open(language: Language, folder: string): Promise<Context> {
    if (this.#contexts.size + this.#opening >= CONTEXTS_MAX) {
      throw new Fault(429, `there are ${CONTEXTS_MAX} contexts (CONTEXTS_MAX); remove some before you make more`);
    }
    this.#opening++;
    try {
      const context = await Context.open(kernelUuid(), language, folder, this.kernels);
      this.#contexts.set(context.id, context);
      return context;
    } finally {
      this.#opening--;
    }
  }
}
