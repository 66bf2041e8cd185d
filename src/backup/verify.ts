/** Checks that a repository has backups, that each is whole, and that all data matches its digests. */
import { errorMessage } from "../base/error-message.ts";
import { backupsAmong, CONTENTS, parseContents, requireComplete } from "./contents.ts";
import type { Repository } from "./repository.ts";

/** Returns false unless there is a backup and a restore of each would bring back everything. */
export async function verify(repository: Repository, say: (line: string) => void): Promise<boolean> {
  await repository.require();
  const snapshots = await repository.list();
  const backups = backupsAmong(snapshots);
  let incomplete = 0;
  for (const { id, time } of backups) {
    const line = `${id.slice(0, 8)}  ${time}`;
    try {
      const contents = parseContents(await repository.text(id, CONTENTS), Number.POSITIVE_INFINITY);
      requireComplete(contents, snapshots);
      if (contents.missing.length > 0) incomplete++;
      say([line, ...contents.missing.map(({ name }) => `without ${name}`)].join("  "));
    } catch (cause) {
      incomplete++;
      say(`${line}  ${errorMessage(cause)}`);
    }
  }
  await repository.check();
  say(
    `sandlot: ${backups.length} backups at ${repository.target}, ${incomplete} incomplete; all data matches its digests`,
  );
  if (backups.length === 0) say("sandlot: there is no backup to restore. FIX: sandlot backup TARGET");
  return backups.length > 0 && incomplete === 0;
}
