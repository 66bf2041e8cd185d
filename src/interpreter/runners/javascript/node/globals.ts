/** Globals of cells beyond Node's own, as in a file of the working folder. */
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { displays } from "./display.ts";

/** The file need not exist. */
const FILE = "cell.js";

export function setGlobals(): void {
  const module = { exports: {} as unknown };
  let made = { folder: "", require: createRequire(fileName()) };
  hidden("require", () => {
    const folder = process.cwd();
    if (made.folder !== folder) made = { folder, require: createRequire(fileName()) };
    return made.require;
  });
  hidden("module", () => module);
  hidden("exports", () => module.exports);
  hidden("__dirname", () => process.cwd());
  hidden("__filename", fileName);
  hidden("__importMeta", () => {
    const url = pathToFileURL(fileName()).href;
    return {
      url,
      dirname: process.cwd(),
      filename: fileName(),
      resolve: (specifier: string) => resolveFrom(specifier),
    };
  });
  hidden("$$", () => displays);
}

/** Makes read-only globals of Node, such as `crypto`, assignable; in a file, a declaration would shadow them. */
export function makeAssignable(names: readonly string[]): void {
  for (const name of names) {
    const property = Object.getOwnPropertyDescriptor(globalThis, name);
    if (property === undefined || property.writable === true || property.configurable !== true) continue;
    const value = (globalThis as Record<string, unknown>)[name];
    Object.defineProperty(globalThis, name, { configurable: true, enumerable: true, writable: true, value });
  }
}

function fileName(): string {
  return join(process.cwd(), FILE);
}

function resolveFrom(specifier: string): string {
  if (/^(?:node|file|data|https?):/.test(specifier)) return specifier;
  const found = createRequire(fileName()).resolve(specifier);
  return found.startsWith("/") ? pathToFileURL(found).href : `node:${found}`;
}

/** A non-enumerable global, replaced as soon as a cell declares the name itself. */
function hidden(name: string, get: () => unknown): void {
  Object.defineProperty(globalThis, name, {
    configurable: true,
    enumerable: false,
    get,
    set: (value: unknown) =>
      Object.defineProperty(globalThis, name, { configurable: true, enumerable: true, writable: true, value }),
  });
}
