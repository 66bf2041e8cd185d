/** A server that makes one image of a disk, for a test to kill: `add-image-program.ts CACHE DATA NAME DISK`. */
import { Disks } from "../../images/disk/disks.ts";
import { Images } from "../../images/images.ts";
import { Mounts } from "../../system/mount/mounts.ts";

const [cache = "", data = "", name = "", disk = ""] = process.argv.slice(2);
const images = await Images.open(cache, await Disks.open(data, new Mounts()));
await images.add(name, { parent: "base", disk });
