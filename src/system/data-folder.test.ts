import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROUNDS = 6;
const AT_ONCE = 6;
const PROGRAM = `
  import { DataFolder } from ${JSON.stringify(join(import.meta.dir, "data-folder.ts"))};
  const [path, at] = process.argv.slice(1);
  while (Date.now() < Number(at));
  console.log(new DataFolder(path).tag);
`;

// Guards against a server whose tag differs from the one in its folder, so that what it makes is never found again.
test("processes that open a new folder concurrently agree on its tag", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const path = mkdtempSync(join(tmpdir(), "data-folder-"));
    const at = String(Date.now() + 300);
    const reported = Array.from({ length: AT_ONCE }, async () => {
      const { stdout } = Bun.spawn([process.execPath, "-e", PROGRAM, path, at], { stderr: "inherit" });
      return (await new Response(stdout).text()).trim();
    });
    const tags = new Set(await Promise.all(reported));
    expect([...tags]).toEqual([expect.stringMatching(/^[a-z0-9]{4}$/)]);
    expect(readdirSync(path)).toEqual(["server.json"]);
    rmSync(path, { recursive: true });
  }
});
