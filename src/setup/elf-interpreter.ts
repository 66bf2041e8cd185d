/**
 * Points a 64-bit ELF program at another loader by overwriting its interpreter path in place. patchelf instead moves
 * whole segments and breaks Bun for arm64, which cannot be loaded at another address.
 */
import { open } from "node:fs/promises";
import { Fault } from "../contract/fault.ts";

const PT_INTERP = 3;
/** Offsets in the ELF header: position, size and number of the program headers. */
const AT = { headers: 32, headerBytes: 54, headerCount: 56 };
/** Offsets in a program header: position in the file, and size. */
const IN_HEADER = { offset: 8, bytes: 32 };
const ELF_HEADER_BYTES = 64;

export async function setInterpreter(program: string, path: string): Promise<void> {
  await using file = await open(program, "r+");
  const read = async (at: number, bytes: number) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, at);
    if (bytesRead < bytes) throw new Fault(500, `${program} is not a whole ELF program`);
    return buffer;
  };
  const header = await read(0, ELF_HEADER_BYTES);
  if (header.toString("latin1", 0, 4) !== "\x7fELF") throw new Fault(500, `${program} is not an ELF program`);
  const each = header.readUInt16LE(AT.headerBytes);
  for (let nth = 0; nth < header.readUInt16LE(AT.headerCount); nth++) {
    const entry = await read(Number(header.readBigUInt64LE(AT.headers)) + nth * each, each);
    if (entry.readUInt32LE(0) !== PT_INTERP) continue;
    const room = Number(entry.readBigUInt64LE(IN_HEADER.bytes));
    const text = Buffer.alloc(room);
    if (text.write(path) !== Buffer.byteLength(path) || text.at(-1) !== 0) {
      throw new Fault(500, `the path ${path} does not fit into ${program}, which has room for ${room - 1} bytes`);
    }
    await file.write(text, 0, room, Number(entry.readBigUInt64LE(IN_HEADER.offset)));
    return;
  }
  throw new Fault(500, `${program} has no ELF interpreter`);
}
