/**
 * Root in a sandbox is nobody outside: ids 0–65535 inside are HOST_ID_FIRST + id on the machine. All sandboxes of a
 * machine share the range, so that image layers are stored once with shifted owners and shared by all.
 */
export const HOST_ID_FIRST = 1_900_000_000;
export const ID_COUNT = 65_536;

/** The ids on the machine of what runs in a sandbox: root inside is `first`, and ID_COUNT ids begin there. */
export interface IdRange {
  first: number;
}

/** Of sandboxes that have none of their own. */
export const SHARED_IDS: IdRange = { first: HOST_ID_FIRST };

/** Processes that carry the connections of sandboxes have ids of their own, as many as sandboxes have. */
export const RELAY_ID_FIRST = HOST_ID_FIRST - ID_COUNT;

/** Those that carry the requests of clients, too; all of one server have the same, or they could not share a port. */
const EDGE_ID_FIRST = RELAY_ID_FIRST - ID_COUNT;

/** No two servers of a machine have the same net. */
export function edgeId(net: number): number {
  return EDGE_ID_FIRST + (net % ID_COUNT);
}

/** The machine's root, as disks with plain ids have it: what overlays keep there for themselves is its own. */
export const HOST_ROOT_ON_DISK = ID_COUNT;

/**
 * How owners are written on a disk. Plain: as they are inside, and mounts map them. Shifted: as the machine has them,
 * HOST_ID_FIRST + id; for kernels that cannot map, and all that was made before any could.
 */
export type IdForm = "plain" | "shifted";

/** The id on the machine for an id in an image; an already shifted one stays, so that shifting twice is harmless. */
export function shiftedId(id: number): number {
  return id < ID_COUNT ? HOST_ID_FIRST + id : id;
}
