/** The Filesystem service: resolves the paths of a call for its user and passes the work to file-tree and watching. */
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { requestIdIn } from "../../contract/request-id.ts";
import type { Filesystem } from "../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { type Entry, readEntry } from "../file-tree/entry.ts";
import { describe, list, makeDirectory, move, remove } from "../file-tree/tree.ts";
import { notingFiles } from "../journal/file-notes.ts";
import type { Journal } from "../journal/journal.ts";
import { callUser } from "../rpc/rpc.ts";
import type { Accounts } from "../users/accounts.ts";
import { resolvePath } from "../users/paths.ts";
import type { SettingsKeeper } from "../users/settings.ts";
import { watchCalls } from "./watching/watch-calls.ts";
import { Watchers } from "./watching/watchers.ts";

/** Clients with exactly this user agent fail on unknown fields. */
const LEGACY_USER_AGENT = "connect-python";

export function filesystemService(
  settings: SettingsKeeper,
  accounts: Accounts,
  journal: Journal,
): ServiceImpl<typeof Filesystem> {
  const resolve = (path: string, context: HandlerContext, field?: string) =>
    resolvePath(path, callUser(context), settings.current.defaultWorkdir, field);
  const entryAt = async (path: string, context: HandlerContext) =>
    present(await describe(path, () => readEntry(path, accounts)), context);

  return {
    async stat(request, context) {
      return { entry: await entryAt(resolve(request.path, context), context) };
    },

    async makeDir(request, context) {
      const path = resolve(request.path, context);
      const owner = callUser(context);
      await notingFiles(journal, "make directory", facts(path, context), () => makeDirectory(path, owner));
      return { entry: await entryAt(path, context) };
    },

    async move(request, context) {
      const destination = resolve(request.destination, context, "destination");
      const path = resolve(request.source, context, "source");
      const owner = callUser(context);
      const moved = { ...facts(path, context), destination };
      await notingFiles(journal, "move", moved, () => move(path, destination, owner));
      return { entry: await entryAt(destination, context) };
    },

    async listDir(request, context) {
      const entries = await list(resolve(request.path, context), Math.max(request.depth, 1), accounts);
      return { entries: entries.map((entry) => present(entry, context)) };
    },

    async remove(request, context) {
      const path = resolve(request.path, context);
      await notingFiles(journal, "remove", facts(path, context), () => remove(path));
      return {};
    },

    ...watchCalls(new Watchers(accounts), resolve, (context) => !isLegacy(context)),
  };
}

/** What the journal has about a call. */
function facts(path: string, context: HandlerContext) {
  return { path, user: callUser(context).name, request_id: requestIdIn(context.requestHeader) };
}

/** Every response to a legacy client carries a header that says so. */
function isLegacy(context: HandlerContext): boolean {
  if (context.requestHeader.get("user-agent") !== LEGACY_USER_AGENT) return false;
  context.responseHeader.set("X-E2B-Legacy-SDK", "true");
  return true;
}

function present(entry: Entry, context: HandlerContext): Entry {
  if (!isLegacy(context)) return entry;
  const { name, type, path } = entry;
  return { ...(name === undefined ? {} : { name }), ...(type === undefined ? {} : { type }), path: path ?? "" };
}
