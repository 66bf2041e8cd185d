/** How the doctor's findings affect the start of the server. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import type { Finding } from "../../setup/doctor/finding.ts";
import { markExamined } from "./doctor.ts";

const folder = folderOfFile("examined");

test.each<[Finding["status"][], boolean, number]>([
  [["ok", "degraded"], true, 1],
  [["ok", "timeout"], true, 2],
  [["ok", "timeout", "broken"], false, 2],
])(
  "a machine with findings %j can start a server: %p; two starts examine it %d times",
  async (found, starts, times) => {
    const mark = join(folder, "examined", found.join("-"));
    let examined = 0;
    const start = async () => {
      await markExamined(mark, async () => {
        examined += 1;
        return new Set(found);
      });
      return true;
    };
    const isStarted = [await start().catch(() => false), await start().catch(() => false)];
    expect({ isStarted, examined }).toEqual({ isStarted: [starts, starts], examined: times });
    expect(existsSync(mark)).toBe(times === 1);
  },
);
