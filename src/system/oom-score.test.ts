/**
 * Setting the server's OOM score needs CAP_SYS_RESOURCE, which test machines may lack. So this tests the requested
 * score, and that the outcome is reported truthfully.
 */
import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lowerOomScore, TAKE_USUAL_SCORE } from "./oom-score.ts";

test("the server requests the lowest score, and reports if it cannot have it", () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-score-"));
  const file = join(folder, "oom_score_adj");
  expect(lowerOomScore(file)).toBe(true);
  expect(readFileSync(file, "utf8")).toBe("-900");
  rmSync(folder, { recursive: true });
  expect(lowerOomScore(file)).toBe(false);
});

test("the server has the score that it reports", () => {
  const program = `import { lowerOomScore } from "${join(import.meta.dir, "oom-score.ts")}";
console.log(lowerOomScore(), (await Bun.file("/proc/self/oom_score_adj").text()).trim());`;
  const { stdout } = Bun.spawnSync([process.execPath, "-e", program]);
  const [isSaid, score] = stdout.toString().trim().split(" ");
  expect(isSaid).toBe(String(score === "-900"));
});

test("started programs reset the score to the default", () => {
  const shell = `echo 500 > /proc/self/oom_score_adj; ${TAKE_USUAL_SCORE} cat /proc/self/oom_score_adj`;
  expect(Bun.spawnSync(["/bin/sh", "-c", shell]).stdout.toString()).toBe("0\n");
});
