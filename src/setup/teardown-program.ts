/** The part of a teardown that runs inside the mount namespace: ends every sandbox and releases the disks. */
import { errorMessage } from "../base/error-message.ts";
import { Machine } from "../host/machine.ts";
import { dropImageMarks } from "../images/cached-images.ts";
import { isDiskPoolBroken, releaseDiskPool } from "../images/disk/disk-pool.ts";
import { dropGuestMarks } from "../images/guest-folders.ts";
import { removeCgroups } from "../system/cgroup/removal.ts";
import { attempt } from "../system/command.ts";
import { DataFolder } from "../system/data-folder.ts";
import { mountPoints } from "../system/mount/mount-namespace.ts";

const [dataPath = "", cacheFolder = ""] = process.argv.slice(2);
const data = new DataFolder(dataPath);
data.lock();
data.makeRunFolder();
try {
  if (isDiskPoolBroken(data.path)) {
    await removeCgroups(data.cgroup);
    await releaseDiskPool(data.path);
  }
  const machine = await Machine.open({ data, cacheFolder, guestFolder: "", resolver: undefined });
  const { checkpoints, images } = machine.parts;
  await machine.adopt({ sandboxes: [], checkpoints: await checkpoints.list() });
  await machine.close();
  dropGuestMarks(cacheFolder, data.tag, await checkpoints.guestFolders());
  const marked = images.cachedUnder([...(await checkpoints.images()), ...images.names()]);
  dropImageMarks(cacheFolder, data.tag, marked);
  const below = mountPoints().filter((path) => path.startsWith(`${data.path}/`));
  for (const path of below.reverse()) await attempt(["umount", "--lazy", path]);
  process.exit(0);
} catch (error) {
  console.error(errorMessage(error));
  process.exit(1);
}
