/**
 * Translates a Dockerfile into a build: a base image, steps and a start command. There is no build context, so
 * instructions that need one are rejected. Other unsupported instructions are rejected with their line, except those
 * that only describe an image. `parseDockerfile` throws only Faults with status 400.
 *
 * This folder runs nothing and reads no files: text in, steps out.
 */
import { quotedWords, shellQuoted } from "../../base/shell-text.ts";
import { Fault } from "../../contract/fault.ts";
import type { BuildStep } from "../../contract/internal/host.ts";
import { quoted } from "../../contract/quoted-text.ts";
import { fetchCommand, isUrl } from "./added-url.ts";
import { faultAt } from "./dockerfile-fault.ts";
import { type Instruction, readInstructions } from "./instructions.ts";
import { Variables } from "./variables.ts";
import { readWord, splitWords } from "./words.ts";

interface ParsedDockerfile {
  /** The image's reference. */
  from: string;
  steps: readonly BuildStep[];
  /** From ENTRYPOINT and CMD, as a shell command line; null without them. */
  startCommand: string | null;
}

/** Processor names of image platforms. */
type Architecture = "amd64" | "arm64";

const DEFAULT_SHELL = ["/bin/sh", "-c"];

/** They only describe an image; nothing in a sandbox depends on them. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set(["EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL"]);

const NO_CONTEXT =
  "there is no build context on this route; send the files with the v3 interface, or fetch them in RUN";
const REFUSED: Readonly<Record<string, string>> = {
  COPY: NO_CONTEXT,
  HEALTHCHECK: "use a ready command instead",
  ONBUILD: "write the instruction itself into the Dockerfile of each template",
  VOLUME: "mount volumes when you create a sandbox",
};

/** Docker's predefined ARGs that need no ARG instruction are left out: they configure a proxy. */
const platformArgs = (architecture: Architecture): Record<string, string> => ({
  TARGETPLATFORM: `linux/${architecture}`,
  TARGETOS: "linux",
  TARGETARCH: architecture,
  TARGETVARIANT: "",
  BUILDPLATFORM: `linux/${architecture}`,
  BUILDOS: "linux",
  BUILDARCH: architecture,
  BUILDVARIANT: "",
});

export function parseDockerfile(text: string, architecture: Architecture): ParsedDockerfile {
  const { instructions, escapeChar } = readInstructions(text);
  const translation = new Translation(escapeChar, architecture);
  for (const instruction of instructions) translation.take(instruction);
  return translation.end();
}

class Translation {
  readonly #platform: Record<string, string>;
  readonly #steps: BuildStep[] = [];
  /** Variables of each ARG before FROM. */
  readonly #globals = new Variables();
  readonly #variables = new Variables();
  #from: string | undefined;
  #shell: readonly string[] | undefined;
  #entrypoint: { command: string; takesArguments: boolean } | undefined;
  /** As a command line, and as the arguments of an entrypoint. */
  #command: { command: string; words: readonly string[] } | undefined;
  #hasUser = false;
  #hasWorkdir = false;

  constructor(
    private readonly escapeChar: string,
    architecture: Architecture,
  ) {
    this.#platform = platformArgs(architecture);
    for (const [name, value] of Object.entries(this.#platform)) this.#globals.setArg(name, value);
  }

  take(instruction: Instruction): void {
    const { keyword, line } = instruction;
    if (this.#from === undefined && keyword !== "FROM" && keyword !== "ARG") {
      throw faultAt(line, `${keyword} before FROM; only ARG may be there`);
    }
    if (WITHOUT_EFFECT.has(keyword)) return;
    const act = this.#acts[keyword];
    if (act === undefined) {
      const instead = REFUSED[keyword];
      throw faultAt(line, `${keyword} is not supported${instead === undefined ? "" : `; ${instead}`}`);
    }
    this.#refuseFlags(instruction);
    act(instruction);
  }

  end(): ParsedDockerfile {
    if (this.#from === undefined) throw new Fault(400, "the Dockerfile has no FROM; name the base image");
    // Sandboxes have a user of their own, unless the Dockerfile says otherwise.
    if (!this.#hasUser) this.#steps.push({ type: "user", name: "user", sudo: false, force: false });
    if (!this.#hasWorkdir) this.#steps.push({ type: "workdir", path: "/home/user", force: false });
    return { from: this.#from, steps: this.#steps, startCommand: this.#startCommand() };
  }

  readonly #acts: Readonly<Record<string, (instruction: Instruction) => void>> = {
    FROM: (each) => this.#takeFrom(each),
    ARG: (each) => this.#takeArg(each),
    ENV: (each) => this.#takeEnv(each),
    RUN: (each) => this.#takeRun(each),
    ADD: (each) => this.#takeAdd(each),
    WORKDIR: (each) => this.#takeWorkdir(each),
    USER: (each) => this.#takeUser(each),
    SHELL: (each) => this.#takeShell(each),
    CMD: (each) => {
      const words = execForm(each) ?? [...(this.#shell ?? DEFAULT_SHELL), needed(each)];
      const command = execForm(each) === undefined ? this.#inShell(needed(each)) : quotedWords(words);
      this.#command = words.length === 0 ? undefined : { command, words };
    },
    ENTRYPOINT: (each) => {
      const words = execForm(each);
      const command = words === undefined ? this.#inShell(needed(each)) : quotedWords(words);
      this.#entrypoint = command === "" ? undefined : { command, takesArguments: words !== undefined };
    },
  };

  #refuseFlags({ keyword, flags, line }: Instruction): void {
    for (const { name, value } of flags) {
      const isUnderstood =
        (keyword === "ADD" && ["chown", "chmod", "checksum", "link"].includes(name)) ||
        (keyword === "RUN" && name === "network" && value === "default") ||
        (keyword === "FROM" && name === "platform");
      if (!isUnderstood) throw faultAt(line, `the flag --${name} of ${keyword} is not supported; leave it out`);
    }
  }

  #takeFrom(instruction: Instruction): void {
    const { line, flags } = instruction;
    if (this.#from !== undefined) {
      throw faultAt(line, "a second FROM: builds of several stages are not supported; keep one FROM");
    }
    const [reference = "", as, name, ...more] = splitWords(needed(instruction), this.escapeChar);
    if (as !== undefined && (as.toUpperCase() !== "AS" || name === undefined || more.length > 0)) {
      throw faultAt(line, "FROM takes an image, and AS with a name if you like");
    }
    const expand = (word: string) => this.#globals.text(readWord(word, this.escapeChar, line), line, "FROM").trim();
    const image = expand(reference);
    if (image === "" || /\s/.test(image)) throw faultAt(line, `${quoted(reference)} is not an image`);
    if (image === "scratch") throw faultAt(line, "FROM scratch has nothing to run commands with; begin with an image");
    const platform = expand(flags.find((flag) => flag.name === "platform")?.value ?? "");
    const own = this.#platform.TARGETPLATFORM;
    if (platform !== "" && platform !== own) {
      throw faultAt(line, `the platform ${quoted(platform)} is not supported; this server has ${own}`);
    }
    this.#from = image;
    // As in Docker: root and `/`, until the Dockerfile says otherwise.
    this.#steps.push({ type: "user", name: "root", sudo: false, force: false });
    this.#steps.push({ type: "workdir", path: "/", force: false });
  }

  #takeArg(instruction: Instruction): void {
    const { line } = instruction;
    const isGlobal = this.#from === undefined;
    const into = isGlobal ? this.#globals : this.#variables;
    for (const word of splitWords(needed(instruction), this.escapeChar)) {
      const { name, value } = assignment(word);
      refuseBadName(name, line);
      const inherited = this.#globals.arg(name);
      into.setArg(
        name,
        value === undefined ? inherited : into.text(readWord(value, this.escapeChar, line), line, "ARG"),
      );
    }
  }

  #takeEnv(instruction: Instruction): void {
    const { line } = instruction;
    const rest = needed(instruction);
    const words = splitWords(rest, this.escapeChar);
    // Legacy form: one name, and the rest is its value.
    const isOld = !words[0]?.includes("=");
    const [, name = "", value] = isOld ? (/^(\S+)\s+(.*)$/s.exec(rest) ?? []) : [];
    if (isOld && value === undefined) throw faultAt(line, `ENV ${quoted(rest)} has no value; write ENV name=value`);
    const pairs = isOld ? [{ name, value }] : words.map(assignment);
    const set = pairs.map((pair) => {
      if (pair.value === undefined) throw faultAt(line, `${quoted(pair.name)} has no =; write ENV name=value`);
      refuseBadName(pair.name, line);
      const parts = readWord(pair.value, this.escapeChar, line);
      // Every pair of one instruction sees the values from before it.
      return {
        name: pair.name,
        template: this.#variables.template(parts, line),
        known: this.#variables.textIfKnown(parts, line),
      };
    });
    for (const { name, known } of set) this.#variables.setEnv(name, known);
    this.#steps.push({ type: "env", variables: set.map(({ name, template }) => [name, template]), force: false });
  }

  #takeRun(instruction: Instruction): void {
    const { heredocs, line, rest } = instruction;
    const words = execForm(instruction);
    if (words?.length === 0) throw faultAt(line, "RUN has nothing to run");
    let command: string;
    if (words !== undefined) command = quotedWords(words);
    else if (heredocs.length === 0) command = this.#inShell(needed(instruction));
    else if (/^\d*<<\S+$/.test(rest)) command = this.#script(heredocs[0]?.content ?? "");
    else command = this.#inShell([needed(instruction), ...heredocs.map(({ raw }) => raw)].join("\n"));
    this.#steps.push({ type: "run", command: this.#withArgs(command), user: null, force: false });
  }

  /** A RUN that is only a here-document: the program of its `#!` line runs it, or else the shell. */
  #script(content: string): string {
    if (!content.startsWith("#!")) return this.#inShell(content);
    return [
      "script=$(mktemp) || exit 1",
      `printf %s ${shellQuoted(content)} >"$script" && chmod 700 -- "$script" && "$script"`,
      "status=$?",
      'rm -f -- "$script"',
      "exit $status",
    ].join("\n");
  }

  #takeAdd(instruction: Instruction): void {
    const { line, flags, heredocs } = instruction;
    const text = (word: string) => this.#variables.text(readWord(word, this.escapeChar, line), line, "ADD");
    const flag = (name: string) => {
      const value = flags.find((each) => each.name === name)?.value ?? null;
      return value === null ? null : text(value);
    };
    const words = (execForm(instruction) ?? splitWords(needed(instruction), this.escapeChar)).map(text);
    const target = words.pop();
    if (target === undefined || words.length === 0) throw faultAt(line, "ADD needs a URL and where to put it");
    for (const source of words) {
      if (!isUrl(source) || heredocs.length > 0) throw faultAt(line, `ADD of ${quoted(source)}: ${NO_CONTEXT}`);
      if (/\.git(?:#.*)?$/.test(source))
        throw faultAt(line, "ADD of a git repository is not supported; clone it in RUN");
    }
    if (words.length > 1 && !target.endsWith("/")) {
      throw faultAt(line, `ADD of several URLs needs a folder, which ends in /, got ${quoted(target)}`);
    }
    const checksum = flag("checksum");
    if (checksum !== null && !/^sha256:[0-9a-f]{64}$/.test(checksum)) {
      throw faultAt(line, `--checksum must be sha256: and 64 hex characters, got ${quoted(checksum)}`);
    }
    for (const url of words) {
      const added = { url, target, owner: flag("chown"), mode: flag("chmod"), checksum: checksum?.slice(7) ?? null };
      this.#steps.push({ type: "run", command: fetchCommand(added, line), user: "root", force: false });
    }
  }

  #takeWorkdir(instruction: Instruction): void {
    const { line } = instruction;
    const path = this.#variables.template(readWord(needed(instruction), this.escapeChar, line), line);
    if (path === "") throw faultAt(line, "WORKDIR has no path");
    this.#steps.push({ type: "workdir", path, force: false });
    this.#hasWorkdir = true;
  }

  #takeUser(instruction: Instruction): void {
    const { line } = instruction;
    // With a group it means that account, whose own group its processes have. The host refuses another group.
    const name = this.#variables.template(readWord(needed(instruction), this.escapeChar, line), line);
    if (name === "") throw faultAt(line, "USER has no name");
    this.#steps.push({ type: "user", name, sudo: false, force: false });
    this.#hasUser = true;
  }

  #takeShell(instruction: Instruction): void {
    const words = execForm(instruction);
    if (words === undefined || words.length === 0) {
      throw faultAt(instruction.line, 'SHELL takes a JSON list, such as SHELL ["/bin/bash", "-c"]');
    }
    this.#shell = words;
  }

  #inShell(command: string): string {
    return this.#shell === undefined ? command : quotedWords([...this.#shell, command]);
  }

  /** ARG variables exist during the build, not in the image. */
  #withArgs(command: string): string {
    const set = this.#variables.args.map(([name, value]) => `${name}=${shellQuoted(value)}`);
    return set.length === 0 ? command : `export ${set.join(" ")}\n${command}`;
  }

  #startCommand(): string | null {
    const [entrypoint, command] = [this.#entrypoint, this.#command];
    if (entrypoint === undefined) return command?.command ?? null;
    if (!entrypoint.takesArguments || command === undefined) return entrypoint.command;
    return `${entrypoint.command} ${quotedWords(command.words)}`;
  }
}

/** The words of `["a", "b"]`; undefined for any other form. */
function execForm({ rest, heredocs }: Instruction): string[] | undefined {
  if (!rest.startsWith("[") || heredocs.length > 0) return undefined;
  try {
    const words: unknown = JSON.parse(rest);
    if (Array.isArray(words) && words.every((word) => typeof word === "string")) return words;
  } catch {
    // Not JSON: a command that begins with a bracket.
  }
  return undefined;
}

function needed({ keyword, rest, line }: Instruction): string {
  if (rest === "") throw faultAt(line, `${keyword} has nothing after it`);
  return rest;
}

function assignment(word: string): { name: string; value: string | undefined } {
  const at = word.indexOf("=");
  return at < 0 ? { name: word, value: undefined } : { name: word.slice(0, at), value: word.slice(at + 1) };
}

function refuseBadName(name: string, line: number): void {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw faultAt(line, `${quoted(name)} is not a variable name`);
}
