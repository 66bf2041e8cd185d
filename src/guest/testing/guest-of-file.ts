/** One guest for all tests of a file; it ends after the last of them. */
import { afterAll, beforeEach } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { RunningGuest } from "./running-guest.ts";

export async function guestOfFile(env: Record<string, string> = {}): Promise<RunningGuest> {
  const guest = await RunningGuest.start(env);
  afterAll(() => guest[Symbol.asyncDispose]());
  return guest;
}

/** A folder that is empty at the start of each test. */
export function emptyFolderOf(guest: RunningGuest): string {
  const folder = `${guest.folder}/case`;
  beforeEach(() => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
  });
  return folder;
}
