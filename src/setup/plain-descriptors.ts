/** A bundler plugin for the guest: replaces message descriptors that are decoded at run time by finished ones. */
import { join } from "node:path";
import type { DescFile } from "@bufbuild/protobuf";
import type { BunPlugin } from "bun";
import { Fault } from "../contract/fault.ts";
import { plainOf } from "../contract/runtime/plain-file.ts";

/** Links the descriptors at run time. */
const LINKER = join(import.meta.dir, "../contract/runtime/plain-file.ts");
const DESCRIPTION = /(const (file_\w+)[^=]*= \/\*@__PURE__\*\/\s*)fileDesc\("[^"]*"(?:, \[([\w, ]*)\])?\)/;

export const plainDescriptors: BunPlugin = {
  name: "plain descriptors",
  setup(build) {
    build.onLoad({ filter: /_pb\.(?:js|ts)$/ }, async ({ path }) => ({
      contents: await withPlainDescription(path),
      loader: path.endsWith(".ts") ? "ts" : "js",
    }));
  },
};

/** The file's text. A file without a descriptor in the generators' form stays unchanged. */
export async function withPlainDescription(path: string): Promise<string> {
  const source = await Bun.file(path).text();
  const found = DESCRIPTION.exec(source);
  if (found === null) return source;
  const [whole, before = "", name = "", imports = ""] = found;
  const module: Record<string, DescFile> = await import(path);
  const file = module[name];
  if (file === undefined) throw new Fault(500, `${path} describes ${name} and does not export it`);
  const plain = JSON.stringify(plainOf(file));
  const linker = `import { plainFile } from ${JSON.stringify(LINKER)};\n`;
  return linker + source.replace(whole, () => `${before}plainFile(${plain}, [${imports}])`);
}
