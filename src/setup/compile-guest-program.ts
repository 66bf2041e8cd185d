/**
 * Compiles the guest into the file that its first argument names, for the loader that the second one names. It is a
 * program of its own: what the bundler asks of us while it works is answered in the process that started it.
 */
import { join } from "node:path";
import { setInterpreter } from "./elf-interpreter.ts";
import { GUEST_PROGRAM } from "./guest-sources.ts";
import { layOutForHugePages } from "./huge-page-layout.ts";
import { plainDescriptors } from "./plain-descriptors.ts";

const PROJECT = join(import.meta.dir, "../..");
/**
 * How many times as often as usual a function runs before the guest's engine compiles it. What runs at a boot and with
 * a first command runs a few times; compiled, it costs every sandbox threads, memory and twice the time.
 */
const COMPILER_RELUCTANCE = 20;

const [outfile = "", loader = ""] = process.argv.slice(2);
await Bun.build({
  entrypoints: [join(PROJECT, GUEST_PROGRAM)],
  target: "bun",
  format: "esm",
  bytecode: true,
  minify: { syntax: true },
  // What is loaded later is a file of its own in the program: none of it is read before.
  splitting: true,
  compile: {
    outfile,
    // What an image has of this kind in its root, /.env and /bunfig.toml, is for programs of the image.
    autoloadDotenv: false,
    autoloadBunfig: false,
    jitPolicy: COMPILER_RELUCTANCE,
  },
  plugins: [plainDescriptors],
});
await setInterpreter(outfile, loader);
await layOutForHugePages(outfile);
