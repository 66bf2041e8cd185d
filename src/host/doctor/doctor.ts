/** Every prerequisite, tested by doing it. */
import { addressChecks } from "./address-checks.ts";
import type { Check, DoctorOptions, Finding } from "./finding.ts";
import { broken } from "./finding.ts";
import { kernelChecks } from "./kernel-checks.ts";
import { limitChecks } from "./limit-checks.ts";
import { toolChecks } from "./tool-checks.ts";
import { wallChecks } from "./wall-checks.ts";

/** Runs all checks in order and reports each as it is done. Answers whether nothing is broken. */
export async function examine(
  options: DoctorOptions,
  report: (name: string, finding: Finding) => void,
): Promise<boolean> {
  let sound = true;
  for (const check of allChecks(options)) {
    const finding = await safely(check);
    if (finding.status === "broken") sound = false;
    report(check.name, finding);
  }
  return sound;
}

export function allChecks(options: DoctorOptions): Check[] {
  return [
    ...kernelChecks(options),
    ...limitChecks(options),
    ...toolChecks(options),
    ...wallChecks(),
    ...addressChecks(options),
  ];
}

/** A check that throws has found something broken that its author did not foresee. */
async function safely(check: Check): Promise<Finding> {
  try {
    return await check.run();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return broken(
      `the check itself failed: ${reason}`,
      "see the message; if it makes no sense, report it with this line",
    );
  }
}
