/** The ways to make a sandbox, starting from a booted one. */
import { Sandbox } from "e2b";
import type { Life } from "./attack-table.ts";

const LIFE = { timeoutMs: 600_000 };

/** The options of the SDK. */
type Options = { apiUrl: string; sandboxUrl: string; apiKey: string };

/** The same sandbox, after its processes were ended and made again. */
export async function resumed(sandbox: Sandbox): Promise<Sandbox> {
  await sandbox.pause();
  await sandbox.connect(LIFE);
  return sandbox;
}

export async function forked(sandbox: Sandbox): Promise<Sandbox> {
  const [fork] = await sandbox.fork({ count: 1, ...LIFE });
  if (!(fork instanceof Sandbox)) throw fork ?? new Error("nothing was forked");
  return fork;
}

export async function brought(life: Life, sandbox: Sandbox, options: Options): Promise<Sandbox> {
  if (life === "booted") return sandbox;
  if (life === "resumed") return await resumed(sandbox);
  if (life === "forked") return await forked(sandbox);
  const { snapshotId } = await sandbox.createSnapshot();
  return await Sandbox.create(snapshotId, { ...options, ...LIFE });
}
