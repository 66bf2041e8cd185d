/**
 * User ids of sandboxes on the machine: ids 0–65535 inside are `first` + id outside, so root inside has no rights
 * outside. Each sandbox has its own range (decision 036). The first range, at HOST_ID_FIRST, is shared: by sandboxes
 * where owners cannot be mapped, and by files that are stored with shifted owners.
 */
export const HOST_ID_FIRST = 1_900_000_000;
export const ID_COUNT = 65_536;

/** The host's ids of a sandbox: root inside is `first`, followed by ID_COUNT ids. */
export interface IdRange {
  first: number;
}

/** The range of sandboxes without their own. */
export const SHARED_IDS: IdRange = { first: HOST_ID_FIRST };

/** The connection relays have their own ids, as many as a sandbox has. */
export const RELAY_ID_FIRST = HOST_ID_FIRST - ID_COUNT;

/** The edge processes have their own ids, too. Those of one server share one, as they share a port. */
const EDGE_ID_FIRST = RELAY_ID_FIRST - ID_COUNT;

/** No two servers of a machine have the same net. */
export function edgeId(net: number): number {
  return EDGE_ID_FIRST + (net % ID_COUNT);
}

/** The machine's root on disks with plain ids: the owner of files that overlays keep for themselves. */
export const HOST_ROOT_ON_DISK = ID_COUNT;

/**
 * How owners are stored on a disk. Plain: as inside; mounts map them. Shifted: HOST_ID_FIRST + id; for kernels without
 * id-mapped mounts, and for older data.
 */
export type IdForm = "plain" | "shifted";

/** The host's id for an id in an image. An already shifted id stays, so shifting twice is harmless. */
export function shiftedId(id: number): number {
  return id < ID_COUNT ? HOST_ID_FIRST + id : id;
}
