/** Opens the parts of a machine in order of their dependencies. */
import { join } from "node:path";
import { systemClock } from "../base/clock.ts";
import { stderrLog } from "../base/log.ts";
import type { Blobs } from "../blobs/blobs.ts";
import type { BuildOptions } from "../builder/open-builds.ts";
import type { RuntimeName } from "../contract/runtime-name.ts";
import { DnsRelay } from "../egress/dns-relay.ts";
import { EgressRelay } from "../egress/egress-relay.ts";
import { cachedImages } from "../images/cached-images.ts";
import { Disks } from "../images/disk/disks.ts";
import { GuestFolders } from "../images/guest-folders.ts";
import { imageFolder } from "../images/image-folder.ts";
import { Images } from "../images/images.ts";
import { idsNotedIn } from "../sandbox/allocation.ts";
import { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { MemoryReserve } from "../sandbox/memory-watch.ts";
import { Network } from "../sandbox/network/network.ts";
import { CrunRuntime } from "../sandbox/runtime/crun/crun-runtime.ts";
import { RunscRuntime } from "../sandbox/runtime/runsc/runsc-runtime.ts";
import { Runtimes } from "../sandbox/runtime/runtimes.ts";
import { hasUnrecorded, isAlive, recordsIn } from "../sandbox/sandbox-record.ts";
import { VolumeContentProcesses } from "../sandbox/volume/content.ts";
import { Volumes } from "../sandbox/volume/volume-disks.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { IdRanges } from "../system/id-ranges.ts";
import { Mounts } from "../system/mount/mounts.ts";
import { Toolbox } from "../system/toolbox.ts";
import { raiseUserLimits } from "../system/user-limits.ts";
import { RuleAuthority } from "../tls/rule-authority.ts";
import { trustedRoots } from "../tls/trusted-roots.ts";
import type { Ksmd } from "./ksmd.ts";
import { Transfers } from "./transfer/transfers.ts";

export interface MachineOptions extends BuildOptions {
  data: DataFolder;
  cacheFolder: string;
  /** The guest folder that is mounted into every sandbox. */
  guestFolder: string;
  /** Name server to ask instead of the machine's own. */
  resolver: string | undefined;
  /** False: as on a kernel without id-mapped mounts, owners are shifted and all sandboxes share their ids. */
  mapIds?: boolean;
  /** The default isolation runtime of sandboxes; crun unless given. */
  runtime?: RuntimeName;
  quotas?: SandboxQuotas;
  /** Maximum number of sandboxes kept ready for demand; none unless given. */
  readyMax?: number;
  /** The image that this server itself makes: no program of a tenant is in it. */
  ownImage?: string;
  /** Memory that stays available; absent: memory is not watched. */
  memoryReserve?: MemoryReserve | undefined;
  /** How long the end of a sandbox is awaited; absent: the default. */
  endWithinMs?: number;
  /** Merges pages of sandboxes that share memory. Absent: nothing does. */
  ksmd?: Ksmd;
  /** Blobs that other machines reach as well. Absent: no sandbox is exported or imported. */
  sharedBlobs?: Blobs;
  /** The runsc program to use instead of the one in the cache folder. */
  runsc?: string | undefined;
}

export interface SandboxQuotas {
  /** Network bandwidth in each direction. */
  bandwidthMbit?: number;
  /** Disk throughput in each direction. */
  diskBytesPerSecond?: number;
}

export type MachineParts = Awaited<ReturnType<typeof openParts>>;

/** The caller holds the data folder's lock and runs inside the mount namespace. */
export async function openParts(options: MachineOptions) {
  const { data, cacheFolder } = options;
  const toolbox = new Toolbox(cacheFolder);
  const guests = GuestFolders.open(cacheFolder, options.guestFolder, data);
  const mounts = new Mounts();
  raiseUserLimits();
  const disks = await Disks.open(data.path, mounts, options.mapIds);
  disks.bytesPerSecond = options.quotas?.diskBytesPerSecond;
  const network = new Network(data, options.quotas?.bandwidthMbit);
  const ranges = new IdRanges(data, await disks.canMap(imageFolder(cacheFolder, "")));
  for (const first of idsNotedIn(data.sandboxesFolder)) ranges.adopt(first);
  for (const record of recordsIn(data.sandboxesFolder)) {
    if (isAlive(record)) network.adopt(record.slot, record.egress);
  }
  if (hasUnrecorded(data.sandboxesFolder)) network.admitAdopted();
  const ruleAuthority = await RuleAuthority.open(data.path);
  await network.open(({ onRuleRequest, ...about }) =>
    EgressRelay.open({
      ...about,
      folder: data.runFolder,
      rules: {
        leafKeyPem: ruleAuthority.leafKeyPem,
        certificateFor: (name) => ruleAuthority.certificateFor(name),
        roots: trustedRoots(process.env),
        onRuleRequest,
      },
      log: stderrLog,
    }),
  );
  const dns = await DnsRelay.open(network.gateway, options.resolver, (source) => network.matcherOf(source));
  const runtimes = new Runtimes(options.runtime ?? "crun", {
    crun: await CrunRuntime.open(toolbox, data, mounts),
    runsc: await RunscRuntime.open(options.runsc ?? toolbox.runsc, data),
  });
  const checkpoints = new Checkpoints(disks.checkpointsFolder);
  const images = await Images.open(cacheFolder, disks, systemClock, cachedImages(cacheFolder, data));
  // Held for as long as the server runs, whatever its sandboxes and builds use.
  if (options.ownImage !== undefined) images.hold(options.ownImage);
  const transfers =
    options.sharedBlobs &&
    (await Transfers.open({
      data,
      cacheFolder,
      checkpoints,
      images,
      disks,
      blobs: options.sharedBlobs,
      mismatch: (memory) => runtimes.of(memory.wall).mismatch(memory),
    }));
  const volumes = await Volumes.open(data, mounts);
  const content = new VolumeContentProcesses(volumes, join(data.runFolder, "volume-content"));
  return {
    runtimes,
    network,
    ranges,
    disks,
    mounts,
    dns,
    checkpoints,
    images,
    transfers,
    volumes,
    content,
    guests,
    ruleAuthority,
  };
}
