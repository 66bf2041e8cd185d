/** Reads and dates the sections of CHANGELOG.md (Keep a Changelog). */

const UNRELEASED = "## [Unreleased]";
/** Stays at the top, for the changes of the next release. */
const HINT = /^<!-- New lines .* -->\n/m;

/** The text of a version's section. Undefined: there is none, or it has no line. */
export function changesOf(changelog: string, version: string): string | undefined {
  const section = changelog.split(/^(?=## )/m).find((text) => text.startsWith(`## [${version}]`));
  const text = section?.slice(section.indexOf("\n")).replace(HINT, "").trim();
  return text !== undefined && /^- \S/m.test(text) ? text : undefined;
}

/** Moves the unreleased changes under the version. */
export function withRelease(changelog: string, version: string, date: string): string {
  const changes = changesOf(changelog, "Unreleased");
  if (changes === undefined) throw new Error("there are no unreleased changes");
  const sections = changelog.split(/^(?=## )/m);
  const at = sections.findIndex((text) => text.startsWith(UNRELEASED));
  const hint = HINT.exec(sections[at] ?? "")?.[0] ?? "";
  sections[at] = `${UNRELEASED}\n\n${hint === "" ? "" : `${hint}\n`}## [${version}] - ${date}\n\n${changes}\n\n`;
  return `${sections.join("").trimEnd()}\n`;
}
