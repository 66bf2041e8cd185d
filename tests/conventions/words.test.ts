/** Keeps out words that were replaced by trade terms. */
import { expect, test } from "bun:test";
import { benchFiles, projectFiles, sourceFiles, testFiles } from "./source-files.ts";

/** Each replaced word, and the word to use. */
const REPLACED: readonly [word: RegExp, instead: string][] = [
  [/birth/i, "creation"],
  [/\bwish(?:es)?\b/i, "request, or options"],
  [/leisure/i, "idleClock"],
  [/(?<!im)patience/i, "wait, or limit"],
  [/\bstandingOf\b|\bStanding\b/, "status"],
  [/\binsists?\b/i, "untilRecorded"],
  [/yard/i, "folder"],
  [/take-?down/i, "removal of a sandbox, teardown of a server"],
  [/\bmount ?world\b/i, "mount namespace"],
  [/\bmemory-(?:file|image)\b|\bmemory[- ]host\b/i, "fake host, meminfo file, image files"],
  [/\b(?:lull|tally|misfit)\b/i, "quiet period, counter, mismatch"],
  [/\bprocess-?hold/i, "process handle"],
  [/\bchronicle/i, "activity"],
  [/\bletGo/, "unlock, thaw, release or unfreeze"],
  [/\bcomesBack\b|\bmayGoOn\b|\bLaterPart\b/, "willResume, isAllowed, LazyPart"],
  [/\bAnswer(?:Body|Head|Lines)\b|\bInnerDoor\b/, "response, or management socket"],
  [/\b(?:on|from) the shelf\b|\bShelf|\bshelve/, "ready pool"],
  [/\bSeen(?:\s+(?:\*|\/\/))?\s+(?:to fail|before)\b/, "Guards against …: comments describe the present"],
  [/management interface/i, "management API"],
  [/\bbehind (?:crun|runsc|%s)/i, "with crun, with runsc"],
  [
    /\bEgressJudge\b|\bjudgeOf\b|\brule-?asked\b|in-?hand\b|askUnseen|[rR]emnants\b/,
    "EgressMatcher, matcherOf, rule-requested, newImages, askHidden, leftovers",
  ],
  [/\bOneAtATime|\bunmake\b|\bhearLog\b|\bputOffLog\b/, "SerialQueue, removeResources, requestLog, deferLog"],
  [
    // Settings, stored fields and the command `templates wall` keep the name; so do firewalls and wall-clock time.
    /(?<![Ff]ire)walls|(?<!FIRE)(?<!SANDLOT_)WALL|Wall(?!-clock| time)|-wall\b|\bwall-(?!clock)|\b(?:an?|behind|each|one|other|the) wall\b(?! clock| time| of a template)/,
    "isolation, or isolation runtime",
  ],
  [
    /\b(?:test|timed|describe|fuzz\w+)\("(?:what|who|whoever|nobody|somebody|so is|one that)\b/,
    "a title with a subject",
  ],
  [
    /\bsrc\/(?:work|host\/(?:system|relay|sandbox|shelf|setup))\b/,
    "a module of today; docs/architecture.md lists them",
  ],
];

const here = "tests/conventions/words.test.ts";
const pages = projectFiles().filter(({ path }) => /^(?:[A-Z]+\.md|docs\/.*\.md)$/.test(path));
const files = [...sourceFiles(), ...benchFiles(), ...testFiles(), ...pages].filter(({ path }) => path !== here);

test.each(REPLACED.map(([word, instead]) => ({ word, instead })))("$word is called $instead", ({ word }) => {
  const found = files.flatMap(({ path, text }) =>
    Array.from(`${path}\n${text}`.matchAll(new RegExp(word, `${word.flags}g`)), ([match]) => `${path}: ${match}`),
  );
  expect(found).toEqual([]);
});

test("services are not called rooms", () => {
  const found = sourceFiles().filter(({ text }) =>
    /#rooms\b|\brooms[.:,)]/.test(text.replaceAll(/\/\*\*.*?\*\//gs, "")),
  );
  expect(found.map(({ path }) => path)).toEqual([]);
});
