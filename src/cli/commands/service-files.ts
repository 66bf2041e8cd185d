/** The files of the service that systemd reads. */
import { existsSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { SERVICE, UNIT_FILE, UNIT_MARK } from "./service-unit.ts";

export function requireOwnUnit(unit = UNIT_FILE): void {
  if (!existsSync(unit) || readFileSync(unit, "utf8").startsWith(UNIT_MARK)) return;
  throw new Fault(
    409,
    `${unit} was not written by \`sandlot install\`. FIX: systemctl disable --now ${SERVICE}, and move the file away`,
  );
}

/** `changes`: also those that the operator has made with `systemctl edit`. */
export function removeUnit({ changes }: { changes: boolean }, unit = UNIT_FILE): void {
  // `systemctl disable` removes it, but cannot run while systemd does not.
  const link = join(dirname(unit), "multi-user.target.wants", basename(unit));
  if (targetOf(link) === unit) rmSync(link, { force: true });
  rmSync(unit, { force: true });
  if (changes) rmSync(`${unit}.d`, { recursive: true, force: true });
}

/** Undefined: there is no such link. */
function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "EINVAL") return undefined;
    throw error;
  }
}
