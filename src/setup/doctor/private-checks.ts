/** Reports which private networks the operator has opened to sandboxes. */
import { type Check, type DoctorOptions, ok } from "./finding.ts";

export function privateChecks({ privateNetworks = [] }: DoctorOptions): Check[] {
  const open = privateNetworks.filter(({ entries }) => entries.length > 0);
  const shown = open.map(({ whose, entries }) => `${entries.join(", ")} (${whose})`).join("; ");
  const detail = shown === "" ? "closed to all sandboxes" : `open to sandboxes: ${shown}`;
  return [{ name: "private networks", run: async () => ok(detail) }];
}
