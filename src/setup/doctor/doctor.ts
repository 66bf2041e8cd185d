/** Tests every prerequisite by using it. Changes no settings of the host, and removes everything it makes. */
import { errorMessage } from "../../base/error-message.ts";
import { Fault } from "../../contract/fault.ts";
import { addressChecks } from "./address-checks.ts";
import type { Check, DoctorOptions, Finding } from "./finding.ts";
import { broken, degraded, ok, timeout } from "./finding.ts";
import { isolationChecks } from "./isolation-checks.ts";
import { kernelChecks } from "./kernel-checks.ts";
import { limitChecks } from "./limit-checks.ts";
import { toolChecks } from "./tool-checks.ts";

/** The first try may be slow because the kernel loads modules; the second finds them loaded. */
const TRIES_MAX = 2;
const SLOW = "run it again when the machine is less busy; on a slow machine set SANDLOT_TIME_FACTOR, for example to 10";

/** Runs all checks in order and reports each result. Returns the kinds of findings that occurred. */
export async function examine(
  options: DoctorOptions,
  report: (name: string, finding: Finding) => void,
  checks: readonly Check[] = allChecks(options),
): Promise<ReadonlySet<Finding["status"]>> {
  const found = new Set<Finding["status"]>();
  for (const check of checks) {
    const finding = await safely(check);
    found.add(finding.status);
    report(check.name, finding);
  }
  return found;
}

export function allChecks(options: DoctorOptions): Check[] {
  return [
    ...kernelChecks(options),
    ...limitChecks(options),
    ...toolChecks(options),
    ...isolationChecks(options),
    ...addressChecks(options),
    { name: "private networks", run: async () => privateNetworks(options) },
    { name: "secrets", run: async () => secrets(options) },
    { name: "store", run: async () => (await options.store?.()) ?? ok("SQLite in the data folder") },
  ];
}

function privateNetworks({ privateNetworks = [] }: DoctorOptions): Finding {
  const open = privateNetworks.filter(({ entries }) => entries.length > 0);
  const shown = open.map(({ whose, entries }) => `${entries.join(", ")} (${whose})`).join("; ");
  return ok(shown === "" ? "closed to all sandboxes" : `open to sandboxes: ${shown}`);
}

function secrets({ secretsProblem }: DoctorOptions): Finding {
  if (secretsProblem === undefined) return ok("their key is in place, or made at the first start");
  const lost = "the secrets of teams, and identity tokens of sandboxes";
  return degraded(secretsProblem, lost, "put the key back and restart the server (docs/secrets.md)");
}

/** Retries a check after a timeout. Any other error is an unforeseen finding. */
async function safely(check: Check): Promise<Finding> {
  let reason = "";
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    try {
      return await check.run();
    } catch (error) {
      reason = errorMessage(error);
      if (!(error instanceof Fault && error.status === 503)) {
        return broken(
          `the check itself failed: ${reason}`,
          "see the message; if it makes no sense, report it with this line",
        );
      }
    }
  }
  return timeout(`not known, because it did not end in time, ${TRIES_MAX} times: ${reason}`, check.timeoutFix ?? SLOW);
}
