/** Creates and kills sandboxes through the management API, like any HTTP client. */
import { Fault } from "../../src/contract/fault.ts";
import type { Context } from "../context.ts";
import { timed } from "../figures/samples.ts";

const LIFE_SECONDS = 1800;

/** Returns its id. */
export async function createSandbox(context: Context, templateID = "base"): Promise<string> {
  return sandboxId(await context.call("POST", "/v2/sandboxes", { templateID, timeout: LIFE_SECONDS }));
}

export async function createTogether(context: Context, count: number, templateID = "base"): Promise<string[]> {
  return await Promise.all(Array.from({ length: count }, () => createSandbox(context, templateID)));
}

/** Time of a create on an otherwise idle server. The sandbox is killed afterwards. */
export async function createMs(context: Context): Promise<number> {
  await context.untilReady();
  let id = "";
  const ms = await timed(async () => {
    id = await createSandbox(context);
  });
  await killAll(context, [id]);
  return ms;
}

/** Kills sandboxes and waits until the server is idle again. */
export async function killAll(context: Context, ids: readonly string[]): Promise<void> {
  await Promise.all(ids.map((id) => context.call("DELETE", `/sandboxes/${id}`)));
  await context.untilReady();
}

export function sandboxId(created: unknown): string {
  const { sandboxID } = created as { sandboxID?: unknown };
  if (typeof sandboxID !== "string") throw new Fault(500, "the answer to a create has no sandboxID");
  return sandboxID;
}
