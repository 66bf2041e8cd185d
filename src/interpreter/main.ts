/** The code interpreter's server in sandboxes of the template code-interpreter-v1. It never talks to the host. */
import { rmSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Contexts } from "./contexts.ts";
import { Kernels } from "./kernels.ts";
import { offeredLanguages } from "./languages.ts";
import { ownSandbox } from "./sandbox-facts.ts";
import { interpreterServer } from "./server.ts";

const PORT = 49_999;
/** Accessible to root only. */
const RUN_FOLDER = "/run/sandlot-interpreter";
/** Created when all kernels that start in advance are running: the moment for the template's snapshot. */
const WARM_FILE = join(RUN_FOLDER, "warm");

await rm(RUN_FOLDER, { recursive: true, force: true });
await mkdir(RUN_FOLDER, { recursive: true, mode: 0o700 });
const offered = offeredLanguages(RUN_FOLDER);
const spares = new Map(offered.map(({ language, spares }) => [language, spares]));
const kernels = new Kernels(spares, ownSandbox);
const contexts = new Contexts(
  offered.map(({ language }) => language),
  kernels,
);
interpreterServer(contexts).listen(PORT, "0.0.0.0");
for (const { language, isOpen } of offered) if (isOpen) await contexts.defaultOf(language.name);
await kernels.refill(0);
writeFileSync(WARM_FILE, "");
process.on("exit", () => rmSync(WARM_FILE, { force: true }));
