/** A fake CRIU: sends over its standard input what CRIU sends during a restore: two stages, then success. */
import { FFIType } from "bun:ffi";
import { onFirstUse, pointerTo } from "../../../../base/c-library.ts";

const libc = onFirstUse({
  send: { args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32], returns: FFIType.i64 },
  recv: { args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32], returns: FFIType.i64 },
});
const MESSAGE_MAX_BYTES = 4096;
const GO_ON = "08061801";
const [part, work, descriptor] = process.argv.slice(2);
if (part === "ends" || work !== "swrk") process.exit(3);
const socket = Number(descriptor);

function hear(): string {
  const message = Buffer.alloc(MESSAGE_MAX_BYTES);
  const length = Number(libc().recv(socket, pointerTo(message), BigInt(message.length), 0));
  return message.toString("hex", 0, Math.max(length, 0));
}

function say(bytes: string): void {
  const message = Buffer.from(bytes, "hex");
  libc().send(socket, pointerTo(message), BigInt(message.length), 0);
}

/** Fails when told to, and when the other end is closed. */
function stage(name: string, pid = ""): void {
  const message = `0a${hexLength(name)}${Buffer.from(name).toString("hex")}${pid}`;
  say(`080610012a${hexLength(Buffer.from(message, "hex"))}${message}`);
  if (part === "dies") process.exit(4);
  if (hear() !== GO_ON) process.exit(1);
}

function hexLength({ length }: { length: number }): string {
  return length.toString(16).padStart(2, "0");
}

if (hear() === "") process.exit(1);
stage("pre-restore");
// Its pid is 4242, a varint of two bytes.
stage("setup-namespaces", "109221");
stage("post-restore", "109221");
say("08021001220308" + "9221");
// Waits until the other end closes.
if (part === "lingers") hear();
