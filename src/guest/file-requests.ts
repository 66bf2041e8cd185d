/** Handles requests for file contents (upload, download, compose) after the checks of front-door.ts. */
import { requestIdIn } from "../contract/request-id.ts";
import { compose } from "./files/compose.ts";
import { readComposeRequest } from "./files/compose-request.ts";
import { download } from "./files/download.ts";
import { type UploadedFile, upload } from "./files/upload.ts";
import { notingFiles } from "./journal/file-notes.ts";
import type { Journal } from "./journal/journal.ts";
import type { MeminfoFile } from "./system/meminfo-file.ts";
import { requireUser } from "./users/access.ts";
import type { Account, Accounts } from "./users/accounts.ts";
import { resolvePath } from "./users/paths.ts";
import type { SettingsKeeper } from "./users/settings.ts";

interface FileServices {
  settings: SettingsKeeper;
  accounts: Accounts;
  journal: Journal;
  meminfoFile: MeminfoFile;
}

/** `named` is the user that the request names, if any. */
export class FileRequests {
  constructor(private readonly services: FileServices) {}

  async transfer(request: Request, url: URL, named: string | undefined): Promise<Response> {
    const { services } = this;
    const { defaultUser, defaultWorkdir } = services.settings.current;
    const account: Account = requireUser(services.accounts, url.searchParams.get("username") || named || defaultUser);
    const resolve = (path: string, field?: string) => resolvePath(path, account, defaultWorkdir, field);
    const path = url.searchParams.get("path");
    const facts = { path: resolve(path ?? ""), user: account.name, request_id: requestIdIn(request.headers) };
    if (request.method === "GET") {
      services.meminfoFile.refreshIfAt(facts.path);
      const status = (response: Response) => ({ status: response.status });
      return notingFiles(services.journal, "download", facts, () => download(request, facts.path), status);
    }
    const send = () => upload(request, path, resolve, account);
    const names = (files: UploadedFile[]) => ({ files: files.length, path: files.map((file) => file.path).join(", ") });
    return Response.json(await notingFiles(services.journal, "upload", facts, send, names), {
      headers: { "Content-Type": "application/json" },
    });
  }

  async compose(request: Request, named: string | undefined): Promise<Response> {
    const { services } = this;
    const { sources, destination, username } = await readComposeRequest(request);
    const { defaultUser, defaultWorkdir } = services.settings.current;
    const owner = requireUser(services.accounts, username || named || defaultUser);
    const resolve = (path: string, field: string) => resolvePath(path, owner, defaultWorkdir, field);
    const composition = {
      sources: sources.map((source) => resolve(source, "source_paths")),
      destination: resolve(destination, "destination"),
      owner,
    };
    const facts = {
      path: composition.destination,
      sources: sources.length,
      user: owner.name,
      request_id: requestIdIn(request.headers),
    };
    const work = () => compose(composition, request.signal);
    return Response.json(await notingFiles(services.journal, "compose", facts, work), {
      headers: { "Content-Type": "application/json" },
    });
  }
}
