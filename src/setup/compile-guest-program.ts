/**
 * Compiles the guest into the file of its first argument, for the loader of its second argument. It is a separate
 * process, because the bundler runs its plugins in the process that starts it.
 */
import { join } from "node:path";
import { setInterpreter } from "./elf-interpreter.ts";
import { GUEST_PROGRAM } from "./guest-sources.ts";
import { plainDescriptors } from "./plain-descriptors.ts";

const PROJECT = join(import.meta.dir, "../..");
/**
 * Multiplier of the number of calls before the guest's engine compiles a function. Functions of the boot and the first
 * command run only a few times; compiling them costs every sandbox threads, memory and twice the time.
 */
const COMPILER_RELUCTANCE = 20;

const [outfile = "", loader = ""] = process.argv.slice(2);
await Bun.build({
  entrypoints: [join(PROJECT, GUEST_PROGRAM)],
  target: "bun",
  format: "esm",
  bytecode: true,
  minify: { syntax: true },
  // Code that is loaded later becomes a separate file in the program and is not read before.
  splitting: true,
  compile: {
    outfile,
    // /.env and /bunfig.toml in an image's root are for programs of the image.
    autoloadDotenv: false,
    autoloadBunfig: false,
    jitPolicy: COMPILER_RELUCTANCE,
  },
  plugins: [plainDescriptors],
});
await setInterpreter(outfile, loader);
