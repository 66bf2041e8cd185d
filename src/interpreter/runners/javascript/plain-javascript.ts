/**
 * TypeScript without its types. Sucrase keeps every line where it is, so that errors name the right one, but knows
 * neither namespaces nor decorators; Bun knows all, and writes the program anew.
 */
import { transform } from "sucrase";

/** Sucrase leaves them out without a word. */
const NAMESPACE = /(?:^|[\s;{}])(?:namespace|module)\s+[\w.$]+\s*\{/;

/** How what sets one up ends when the types are gone. */
export const ENUM_OR_NAMESPACE = /\((\w+) \|\|(?: \(\1 = \{\}\)|= \{\})\);?$/;

/** A module of Bun's own, which no other kernel has. */
const OF_BUN = '"bun:wrap"';

/** What no way can do; says more than that there is an unexpected character. */
export class Unsupported extends Error {}

/** Ways to do it, the best first. A later one is for when what an earlier one gives is no JavaScript. */
export function withoutTypes(code: string): (() => string)[] {
  const ways = [() => byBun(code)];
  if (!NAMESPACE.test(code)) ways.unshift(() => bySucrase(code));
  return ways;
}

function bySucrase(code: string): string {
  return transform(code, { transforms: ["typescript"], disableESTransforms: true, keepUnusedImports: true }).code;
}

function byBun(code: string): string {
  const transpiler = new Bun.Transpiler({
    loader: "ts",
    target: "node",
    trimUnusedImports: false,
    deadCodeElimination: false,
    treeShaking: false,
  });
  const source = transpiler.transformSync(code);
  if (source.includes(OF_BUN)) throw new Unsupported("Decorators are not supported");
  return source;
}
