/** Two sockets that are connected with each other and keep messages apart, for programs that speak in messages. */
import { FFIType, ptr } from "bun:ffi";
import { Fault } from "../../contract/fault.ts";
import { callResult, onFirstUse, SystemError } from "../../work/c-library.ts";

const libc = onFirstUse({
  socketpair: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
});

const AF_UNIX = 1;
const SOCK_SEQPACKET = 5;
const SOCK_CLOEXEC = 0o2000000;

/** Their descriptors. No program inherits them but the one that is given one. */
export function socketPair(): [number, number] {
  const pair = new Int32Array(2);
  const made = callResult("socketpair", () => libc().socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ptr(pair)));
  if (made instanceof SystemError) throw new Fault(500, made.message, { cause: made });
  return [pair[0] as number, pair[1] as number];
}
