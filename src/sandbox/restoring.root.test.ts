/** A restore that fails while other steps of it are under way. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { Fault } from "../contract/fault.ts";
import { restoreSandbox } from "./restoring.ts";

const folder = folderOfFile("restoring");

// Guards against removing the disk first, so that the copy shares no blocks.
test("after a failure of any step everything is undone, once no step is running", async () => {
  const happened: string[] = [];
  const request = {
    id: "i1",
    kind: { cpuCount: 1, memoryMB: 1 },
    checkpoint: { disk: "disk.img", memory: "memory", own: folder },
    memory: { address: "10.0.0.1", files: {}, mounts: [] },
    egress: "closed",
    folder: join(folder, "i1"),
    lowers: [],
    network: { takeFor: () => 1, setEgress: () => Promise.reject(new Fault(503, "no rules")) },
    ranges: { take: () => ({ first: 1 }) },
    disks: {
      async attachCopy() {
        await Bun.sleep(50);
        happened.push("attached");
        throw new Error("another step has failed before");
      },
    },
    processors: { take: () => [] },
    runtime: { holdsConnections: () => false, restore: ({ prepared }: { prepared: Promise<unknown> }) => prepared },
    turn: async () => ({ [Symbol.dispose]: () => undefined }),
    removeResources: async () => void happened.push("taken back"),
  };
  const restoring = restoreSandbox(request as unknown as Parameters<typeof restoreSandbox>[0]);
  await expect(restoring).rejects.toMatchObject({ status: 503, message: expect.stringContaining("no rules") });
  expect(happened).toEqual(["attached", "taken back"]);
});
