/** Servers from a repository instead of the catalogue: fetched, installed, then run in the repository's root. */
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { STATE_FOLDER } from "../catalogue.ts";
import { giveToUser, runAsUser, USER } from "./run-as-user.ts";

export interface Repository {
  url: string;
  folder: string;
  installCmd?: string;
}

/** Neither part starts with a dot or a dash, because they become part of a path and of an argument. */
const NAME = /^github\/([A-Za-z0-9][\w-]*)\/([A-Za-z0-9_][\w.-]*)$/;

export function repositoryOf(name: string, installCmd?: string): Repository {
  const [, owner, repo] = NAME.exec(name) ?? [];
  if (owner === undefined || repo === undefined) {
    throw new Fault(400, `${JSON.stringify(name)} is not a repository; write github/OWNER/REPO`);
  }
  const found = {
    url: `https://github.com/${owner}/${repo}`,
    folder: `${STATE_FOLDER}/repositories/${owner}/${repo}`,
  };
  return installCmd === undefined ? found : { ...found, installCmd };
}

/** Reuses what a template build fetched before, but not an incomplete fetch. */
export async function fetchRepository({ url, folder }: Repository, signal: AbortSignal): Promise<void> {
  if (existsSync(folder)) return;
  const unfinished = `${folder}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(dirname(folder), { recursive: true });
  await giveToUser(STATE_FOLDER, dirname(dirname(folder)), dirname(folder));
  const failed = await runAsUser(["git", "clone", "--quiet", "--depth=1", "--", url, unfinished], {
    account: USER,
    cwd: STATE_FOLDER,
    variables: { GIT_TERMINAL_PROMPT: "0" },
    signal,
  });
  if (failed !== undefined) {
    await rm(unfinished, { recursive: true, force: true });
    throw new Fault(502, `${url} cannot be cloned; is it public, and may the sandbox reach it? git says: ${failed}`);
  }
  await rename(unfinished, folder);
}

export async function installRepository(
  { url, folder, installCmd }: Repository,
  variables: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  if (installCmd === undefined) return;
  const failed = await runAsUser(["bash", "-c", installCmd], { account: USER, cwd: folder, variables, signal });
  if (failed !== undefined) throw new Fault(502, `${url}: its installCmd failed: ${failed}`);
}
