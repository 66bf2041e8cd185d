/**
 * In its own mount namespace: two servers cache kernel facts concurrently, then remove their folders (the arguments).
 */
import { rm } from "node:fs/promises";
import { attempt } from "../../../../system/command.ts";
import { rememberKernelFacts } from "../kernel-facts.ts";

const folders = process.argv.slice(2);
/** Removes a mount inherited from the original namespace. */
await attempt(["umount", "/run/criu.kdat"]);
/** Takes a while and writes the file, as CRIU does. */
const criu = ["/bin/sh", "-c", "sleep 0.2; echo known > /run/criu.kdat", "criu"];
await Promise.all(folders.map((folder) => rememberKernelFacts(criu, folder)));
for (const folder of folders) await rm(folder, { recursive: true });
console.log(await Bun.file("/run/criu.kdat").text());
