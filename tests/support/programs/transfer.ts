/**
 * Exports or imports a checkpoint beside a server, inside its mount namespace or one like it. With `stall`, an import
 * stops for ever in the middle of the part with the sandbox itself.
 *
 *   transfer.ts DATA CACHE BLOBS export NAME    prints the digest
 *   transfer.ts DATA CACHE BLOBS import DIGEST [stall]
 */
import { systemClock } from "../../../src/base/clock.ts";
import type { Blobs } from "../../../src/blobs/blobs.ts";
import { FolderBlobs } from "../../../src/blobs/folder-blobs.ts";
import { readExport } from "../../../src/host/transfer/contents.ts";
import { Transfers } from "../../../src/host/transfer/transfers.ts";
import { Disks } from "../../../src/images/disk/disks.ts";
import { Images } from "../../../src/images/images.ts";
import { Checkpoints } from "../../../src/sandbox/checkpoint/checkpoints.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { Mounts } from "../../../src/system/mount/mounts.ts";

const [dataPath = "", cacheFolder = "", blobsFolder = "", work = "", name = "", stall] = process.argv.slice(2);
const data = new DataFolder(dataPath);
const mounts = new Mounts();
const disks = await Disks.open(data.path, mounts);
const blobs = await FolderBlobs.open(blobsFolder, systemClock);
const transfers = await Transfers.open({
  data,
  cacheFolder,
  checkpoints: new Checkpoints(disks.checkpointsFolder),
  images: Images.reading(cacheFolder, disks),
  disks,
  blobs: stall === undefined ? blobs : await stalling(blobs),
  mismatch: () => undefined,
});
console.log(work === "export" ? await transfers.export(name) : await transfers.import(name));
mounts.close();
process.exit(0);

async function stalling(whole: Blobs): Promise<Blobs> {
  const { sandbox } = readExport(await new Response(await whole.open(`parts/${name}`)).text());
  const open = async (part: string) => {
    const content = await whole.open(part);
    if (!part.endsWith(sandbox.digest)) return content;
    const reader = content.getReader();
    let chunks = 0;
    return new ReadableStream<Uint8Array>({
      async pull(controller) {
        const { value } = await reader.read();
        if (chunks++ < 2 && value !== undefined) return controller.enqueue(value);
        console.log("stalled");
        await new Promise(() => undefined);
      },
    });
  };
  return Object.assign(Object.create(whole) as Blobs, { open, find: (part: string) => whole.find(part) });
}
