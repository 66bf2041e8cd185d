/** The routes of volumes. */
import { z } from "zod";
import { createVolume, listedVolume, volumeAndToken } from "../../contract/management/volume.ts";
import type { Volume } from "../../store/volumes.ts";
import { type Route, route } from "./services.ts";

export const volumeRoutes: readonly Route[] = [
  route("GET /volumes", {
    auth: "key",
    summary: "List volumes",
    success: [{ status: 200, description: "All of the team", schema: z.array(listedVolume) }],
    async handle({ caller }, { volumes }) {
      return { body: (await volumes.list(caller.team)).map(asListed) };
    },
  }),
  route("POST /volumes", {
    auth: "key",
    summary: "Create a volume",
    body: { schema: createVolume, required: true },
    success: [{ status: 201, description: "The new, empty volume", schema: volumeAndToken }],
    errors: [429, 503, 507],
    async handle({ caller, body }, { volumes }) {
      const volume = await volumes.create(caller.team, body.name, body.sizeMB ?? undefined);
      return { body: { ...asListed(volume), token: await volumes.tokenFor(volume) } };
    },
  }),
  route("GET /volumes/{volumeID}", {
    auth: "key",
    summary: "Get a volume, with a new token for its content",
    success: [{ status: 200, description: "The volume", schema: volumeAndToken }],
    async handle({ caller, params }, { volumes }) {
      const volume = await volumes.require(caller.team.id, params.volumeID);
      return { body: { ...asListed(volume), token: await volumes.tokenFor(volume) } };
    },
  }),
  route("DELETE /volumes/{volumeID}", {
    auth: "key",
    summary: "Delete a volume that no sandbox or snapshot mounts",
    success: [{ status: 204, description: "Deleted; its name is free" }],
    errors: [409],
    async handle({ caller, params }, { volumes }) {
      await volumes.delete(caller.team, params.volumeID);
    },
  }),
];

function asListed({ id, name }: Volume): z.infer<typeof listedVolume> {
  return { volumeID: id, name };
}
