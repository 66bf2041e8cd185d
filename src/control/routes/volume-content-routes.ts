/** The routes of volume content. The volume's token allows all of them. */
import { posix } from "node:path";
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import type { EntryAttributes, EntryOptions } from "../../contract/internal/volume-content.ts";
import {
  changeEntry,
  entryQuery,
  listFolderQuery,
  makeEntryQuery,
  volumeEntry,
} from "../../contract/management/volume.ts";
import type { Volume } from "../../store/volumes.ts";
import { withPlace } from "../volumes/content-quota.ts";
import { type Route, route } from "./services.ts";

const entry = { schema: volumeEntry };
const busy = [403, 429, 503];

export const volumeContentRoutes: readonly Route[] = [
  route("GET /volumecontent/{volumeID}/path", {
    auth: "volume",
    summary: "Get a file or directory entry of a volume",
    query: entryQuery,
    success: [{ status: 200, description: "The entry; of a link itself", ...entry }],
    errors: busy,
    async handle({ caller, params, query }, { volumes, volumeContent }) {
      using _permit = volumes.place(caller.volume);
      return { body: await volumeContent.stat(idOf(caller, params), placed(query.path)) };
    },
  }),
  route("PATCH /volumecontent/{volumeID}/path", {
    auth: "volume",
    summary: "Change owner or mode of an entry",
    query: entryQuery,
    body: { schema: changeEntry, required: true },
    success: [{ status: 200, description: "The updated entry", ...entry }],
    errors: busy,
    async handle({ caller, params, query, body }, { volumes, volumeContent }) {
      using _permit = volumes.place(caller.volume);
      const changed = await volumeContent.change(idOf(caller, params), placed(query.path), given(body));
      return { body: changed };
    },
  }),
  route("DELETE /volumecontent/{volumeID}/path", {
    auth: "volume",
    summary: "Remove an entry; a directory with its content",
    query: entryQuery,
    success: [{ status: 204, description: "Deleted" }],
    errors: busy,
    async handle({ caller, params, query }, { volumes, volumeContent }) {
      using _permit = volumes.place(caller.volume);
      await volumeContent.remove(idOf(caller, params), placed(query.path));
    },
  }),
  route("GET /volumecontent/{volumeID}/dir", {
    auth: "volume",
    summary: "List a directory of a volume",
    query: listFolderQuery,
    success: [{ status: 200, description: "The directory's entries, sorted by path", schema: z.array(volumeEntry) }],
    errors: busy,
    async handle({ caller, params, query }, { volumes, volumeContent }) {
      using _permit = volumes.place(caller.volume);
      return { body: await volumeContent.list(idOf(caller, params), placed(query.path), query.depth) };
    },
  }),
  route("POST /volumecontent/{volumeID}/dir", {
    auth: "volume",
    summary: "Create a directory in a volume",
    query: makeEntryQuery,
    success: [{ status: 201, description: "The directory", ...entry }],
    errors: [...busy, 409, 507],
    async handle({ caller, params, query }, { volumes, volumeContent }) {
      using _permit = volumes.place(caller.volume);
      const made = await volumeContent.makeFolder(idOf(caller, params), placed(query.path), optionsIn(query));
      return { body: made };
    },
  }),
  route("GET /volumecontent/{volumeID}/file", {
    auth: "volume",
    summary: "Download a file from a volume",
    query: entryQuery,
    success: [{ status: 200, description: "The file's content" }],
    errors: busy,
    async handle({ caller, params, query }, { volumes, volumeContent }) {
      const place = volumes.place(caller.volume);
      try {
        const { content } = await volumeContent.read(idOf(caller, params), placed(query.path));
        return { stream: withPlace(content, place) };
      } catch (cause) {
        place[Symbol.dispose]();
        throw cause;
      }
    },
  }),
  route("PUT /volumecontent/{volumeID}/file", {
    auth: "volume",
    summary: "Upload a file to a volume",
    query: makeEntryQuery,
    upload: "application/octet-stream",
    success: [{ status: 201, description: "The uploaded file", ...entry }],
    errors: [...busy, 409, 507],
    async handle({ caller, params, query, upload }, { volumes, volumeContent }) {
      using _permit = volumes.place(caller.volume);
      const { content } = upload;
      const id = idOf(caller, params);
      return { body: await volumeContent.write(id, placed(query.path), optionsIn(query), content) };
    },
  }),
];

/** Fault 403 when the token belongs to another volume. */
function idOf({ volume }: { volume: Volume }, params: { volumeID: string }): string {
  if (volume.id === params.volumeID.toLowerCase()) return volume.id;
  throw new Fault(403, "this token is for another volume");
}

/**
 * Resolves ".." and removes a trailing slash: above the root ".." has no effect, but a program that shows the path
 * would take it for a folder.
 */
function placed(path: string): string {
  const clean = posix.normalize(`/${path}`);
  return clean.length > 1 && clean.endsWith("/") ? clean.slice(0, -1) : clean;
}

function optionsIn(query: z.output<typeof makeEntryQuery>): EntryOptions {
  return { ...given(query), force: query.force === "true" };
}

function given({ uid, gid, mode }: z.output<typeof changeEntry>): EntryAttributes {
  return { ...(uid == null ? {} : { uid }), ...(gid == null ? {} : { gid }), ...(mode == null ? {} : { mode }) };
}
