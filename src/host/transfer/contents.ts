/**
 * What an exported sandbox consists of. The digest of this description names the export.
 *
 *   images     the layers below the disk, shared by all sandboxes of a template
 *   guest      the programs that are in its memory, shared by all sandboxes
 *   sandbox    disk, memory and files of this sandbox alone
 *   manifest   of the checkpoint, as on the machine that wrote it
 */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { partSchema } from "./part-store.ts";

const FORMAT = 1;

const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,127}$/);

const imageSchema = z.object({
  name,
  /** In the cache folder, or made by a build. */
  kind: z.enum(["cached", "built"]),
  below: name.nullable(),
  tree: partSchema,
});

const contentsSchema = z.object({
  format: z.literal(FORMAT),
  checkpoint: name,
  /** The cache folder that paths in the manifest name. */
  cacheFolder: z.string().startsWith("/"),
  manifest: z.string(),
  /** Each one after the image below it. */
  images: z.array(imageSchema),
  /** Null: there is no memory. */
  guest: z.object({ name: z.string().regex(/^[0-9a-f]{16}$/), tree: partSchema }).nullable(),
  sandbox: partSchema,
});

export type ExportContents = z.infer<typeof contentsSchema>;
export type ExportedImage = z.infer<typeof imageSchema>;

export function describeExport(known: Omit<ExportContents, "format">): string {
  return JSON.stringify({ format: FORMAT, ...known });
}

/** Throws Fault 422 for an export that this program cannot read. */
export function readExport(text: string): ExportContents {
  try {
    return contentsSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new Fault(422, "this program cannot read the description of the exported sandbox", { cause });
  }
}
