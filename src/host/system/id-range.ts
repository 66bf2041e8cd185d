/**
 * Root in a sandbox is nobody outside: ids 0–65535 inside are HOST_ID_FIRST + id on the machine. All sandboxes of a
 * machine share the range, so that image layers are stored once with shifted owners and shared by all.
 */
export const HOST_ID_FIRST = 1_900_000_000;
export const ID_COUNT = 65_536;

/** How owners are written on a disk: as the machine has them, HOST_ID_FIRST + id. */
export type IdForm = "shifted";

/** The id on the machine for an id in an image; an already shifted one stays, so that shifting twice is harmless. */
export function shiftedId(id: number): number {
  return id < ID_COUNT ? HOST_ID_FIRST + id : id;
}
