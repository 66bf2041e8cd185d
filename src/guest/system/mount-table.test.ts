import { expect, test } from "bun:test";
import { parseMounts, readMounts } from "./mount-table.ts";

test("the table of mounts is read with spaces in its paths", () => {
  const text =
    "36 35 98:0 / /mnt/with\\040space rw,noatime master:1 - nfs4 host:/x rw\n22 1 0:21 / /proc rw - proc proc rw\n";
  expect(parseMounts(text)).toEqual([
    { point: "/mnt/with space", type: "nfs4" },
    { point: "/proc", type: "proc" },
  ]);
});

test("this machine's table has the root and /proc", async () => {
  const mounts = await readMounts();
  expect(mounts.map(({ point }) => point)).toContain("/");
  expect(mounts).toContainEqual({ point: "/proc", type: "proc" });
});
