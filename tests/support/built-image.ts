/** Images as builds make them: the changes of a sandbox of another image, kept as an image. */
import type { CreateSandbox } from "../../src/contract/internal/host.ts";
import { shell } from "./inside.ts";
import { type MachineOfFile, request } from "./machine-of-file.ts";

export function requestOf(image: string): CreateSandbox {
  return { ...request, kind: { ...request.kind, image } };
}

/** The disk of a sandbox of `parent` after `script`, for as long as `use` takes. */
export async function withDiskAfter(
  { machine, data }: MachineOfFile,
  parent: string,
  script: string,
  use: (disk: string) => Promise<void>,
): Promise<void> {
  const { id } = await machine.create(requestOf(parent));
  const checkpoint = `disk-${id}`;
  try {
    await shell(data, id, `set -e\n${script}`);
    await machine.snapshot(id, checkpoint, { memory: false });
    await use(machine.parts.checkpoints.read(checkpoint).folder.disk);
  } finally {
    await machine.destroy(id);
    await machine.removeCheckpoint(checkpoint);
  }
}

export async function buildImage(here: MachineOfFile, name: string, parent: string, script: string): Promise<void> {
  await withDiskAfter(here, parent, script, (disk) => here.machine.parts.images.add(name, { parent, disk }));
}
