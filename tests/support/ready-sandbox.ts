/** A sandbox of the template base that waits in a machine's ready pool. */
import { readdirSync } from "node:fs";
import { type MachineOfFile, request } from "./machine-of-file.ts";
import { until } from "./until.ts";

/** Its id. From then on one is kept ready, until `keepReady` says otherwise. */
export async function readySandbox({ machine, data }: MachineOfFile): Promise<string> {
  const before = new Set(readdirSync(data.sandboxesFolder));
  await machine.keepReady([{ kind: request.kind, count: 1, checkpoint: null }]);
  let ready: string | undefined;
  await until("one is ready", () => {
    const others = readdirSync(data.sandboxesFolder).filter((id) => !before.has(id));
    ready = others.find((id) => machine.addressOf(id) !== undefined);
    return ready !== undefined;
  });
  return ready ?? "";
}
