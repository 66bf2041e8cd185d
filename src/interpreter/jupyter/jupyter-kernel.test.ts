/** Kernel processes that fail to become a kernel. */
import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { untilTrue } from "../../base/testing/until.ts";
import { KernelProcess } from "../kernel-process.ts";
import { JupyterKernel, type JupyterLanguage } from "./jupyter-kernel.ts";

const chores = { setVariables: () => "", setFolder: () => "", reseed: () => "" };

test("a kernel that ends at its start is an error with its last output, and leaves no file", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-kernels-"));
  const script = "seq 100000 >&2; echo \"ModuleNotFoundError: No module named 'pandas'\" >&2; exit 1";
  const launch: JupyterLanguage["launch"] = async () => KernelProcess.start(["sh", "-c", script], "/");
  const refused = JupyterKernel.start(folder, { launch, chores }, "/");
  await expect(refused).rejects.toThrow(
    /^the kernel did not start: Error: it ended; it wrote: [\s\S]*No module named 'pandas'$/,
  );
  await untilTrue(() => readdirSync(folder).length === 0);
  rmSync(folder, { recursive: true });
});
