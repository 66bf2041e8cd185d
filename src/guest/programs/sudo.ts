/** Lets an account become root without a password, where the image has sudo. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";

const PROGRAMS = ["/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo"];
const SUDOERS = "/etc/sudoers";
const FOLDER = "/etc/sudoers.d";

/** Returns notes for the build log. */
export function allowSudo(name: string): string[] {
  if (!PROGRAMS.some((path) => existsSync(path))) {
    return [`there is no sudo in this image, so ${name} cannot become root by it; commands can be run as root instead`];
  }
  mkdirSync(FOLDER, { recursive: true, mode: 0o750 });
  includeFolder();
  // sudo ignores files with a dot in their names.
  replace(`${FOLDER}/${name.replaceAll(".", "_")}`, `${name} ALL=(ALL:ALL) NOPASSWD: ALL\n`);
  return [];
}

function includeFolder(): void {
  const rules = existsSync(SUDOERS) ? readFileSync(SUDOERS, "utf8") : "root ALL=(ALL:ALL) ALL\n";
  // Every version of sudo reads this older spelling, although it looks like a comment.
  if (/^[#@]includedir\s+\/etc\/sudoers\.d\/?\s*$/m.test(rules)) return;
  replace(SUDOERS, `${rules.replace(/\n?$/, "\n")}#includedir ${FOLDER}\n`);
}

/** sudo rejects files that users other than root may write. */
function replace(path: string, text: string): void {
  writeFileSync(`${path}.sandlot-new`, text, { mode: 0o440 });
  renameSync(`${path}.sandlot-new`, path);
}
