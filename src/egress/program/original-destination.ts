/** Reads the destination of a connection before the firewall redirected it. */
import { FFIType } from "bun:ffi";
import { callResult, onFirstUse, pointerTo } from "../../base/c-library.ts";

const libc = onFirstUse({
  getsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
});

const SOL_IP = 0;
const SO_ORIGINAL_DST = 80;
const ADDRESS_BYTES = 16;

/** Undefined: the kernel does not know. */
export function originalDestination(fd: number): { address: string; port: number } | undefined {
  const place = Buffer.alloc(ADDRESS_BYTES);
  const length = new Uint32Array([ADDRESS_BYTES]);
  const result = callResult("getsockopt", () =>
    libc().getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, pointerTo(place), pointerTo(length)),
  );
  if (typeof result !== "number") return undefined;
  return { address: [...place.subarray(4, 8)].join("."), port: place.readUInt16BE(2) };
}
