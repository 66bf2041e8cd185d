/** An image of busybox only, as an OCI layout: the base of builds on both sides. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ociImage, writeLayout } from "../../src/host/testing/oci-image.ts";
import { tar } from "../../src/host/testing/tar.ts";
import type { Toolbox } from "../../src/system/toolbox.ts";

/** Its name on the server. */
export const SMALL_IMAGE = "bench/small";

export function layoutIn(dataFolder: string): string {
  return join(dataFolder, "small-image");
}

export function writeSmallImage(toolbox: Toolbox, layout: string): void {
  const busybox = readFileSync(join(toolbox.toolFolder, "usr/bin/busybox"));
  const root = tar([
    { name: "bin/", kind: "folder" },
    { name: "bin/busybox", content: busybox, mode: 0o755 },
    { name: "bin/sh", kind: "symlink", target: "busybox" },
    { name: "etc/", kind: "folder" },
    { name: "etc/passwd", content: "root:x:0:0:root:/root:/bin/sh\n" },
    { name: "etc/group", content: "root:x:0:\n" },
  ]);
  writeLayout(layout, ociImage({ layers: [root], config: { Env: ["PATH=/bin"] } }));
}
