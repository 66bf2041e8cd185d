/**
 * Removes types from TypeScript. Sucrase keeps every line in place, so that errors name the right one, but supports
 * neither namespaces nor decorators. Bun supports both, but rewrites the whole program.
 */
import { transform } from "sucrase";

/** Sucrase drops namespaces silently. */
const NAMESPACE = /(?:^|[\s;{}])(?:namespace|module)\s+[\w.$]+\s*\{/;

/** The end of an enum's or namespace's initializer after the types are removed. */
export const ENUM_OR_NAMESPACE = /\((\w+) \|\|(?: \(\1 = \{\}\)|= \{\})\);?$/;

/** A module of Bun, which Node does not have. */
const OF_BUN = '"bun:wrap"';

/** Code that no converter supports; its message says more than a syntax error would. */
export class Unsupported extends Error {}

/** Converters, the best first. Try the next one if the result of the previous is not JavaScript. */
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
