/** Lets an account become root without a password, where the image has sudo. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";

const PROGRAMS = ["/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo"];
const SUDOERS = "/etc/sudoers";
const FOLDER = "/etc/sudoers.d";
/** sudo rejects files that users other than root may write. */
const RULES_MODE = 0o440;

/** Returns notes for the build log. */
export function allowSudo(name: string): string[] {
  if (!PROGRAMS.some((path) => existsSync(path))) {
    return [`there is no sudo in this image, so ${name} cannot become root by it; commands can be run as root instead`];
  }
  mkdirSync(FOLDER, { recursive: true, mode: 0o750 });
  includeFolder();
  // sudo ignores files with a dot in their names.
  replace(`${FOLDER}/${name.replaceAll(".", "_")}`, `${name} ALL=(ALL:ALL) NOPASSWD: ALL\n`, RULES_MODE);
  return [];
}

function includeFolder(): void {
  const rules = existsSync(SUDOERS) ? readFileSync(SUDOERS, "utf8") : "root ALL=(ALL:ALL) ALL\n";
  // Every version of sudo reads this older spelling, although it looks like a comment.
  if (/^[#@]includedir\s+\/etc\/sudoers\.d\/?\s*$/m.test(rules)) return;
  replace(SUDOERS, `${rules.replace(/\n?$/, "\n")}#includedir ${FOLDER}\n`, RULES_MODE);
}

/** Renames into place, so that an existing link is replaced and not written through. */
export function replace(path: string, text: string, mode = 0o644): void {
  writeFileSync(`${path}.sandlot-new`, text, { mode });
  renameSync(`${path}.sandlot-new`, path);
}
