/** A template whose sandboxes boot when they are asked for: `base` of another size, of which nobody keeps any. */
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import type { Context } from "../context.ts";
import { build, removeTemplate } from "./bench-build.ts";

/** What is kept ready of base does not fit. */
const MEMORY_MB = BASE_TEMPLATE.memoryMB + 2;

export class ColdTemplate implements AsyncDisposable {
  readonly id = "bench-cold";

  private constructor(readonly context: Context) {}

  static async make(context: Context): Promise<ColdTemplate> {
    const template = new ColdTemplate(context);
    await build(context, { name: template.id, from: { fromTemplate: "base" }, commands: [], memoryMB: MEMORY_MB });
    return template;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await removeTemplate(this.context, this.id);
  }
}
