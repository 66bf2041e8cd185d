/**
 * Splits a Dockerfile into instructions with their lines. The parser library says where an instruction begins and ends
 * and which flags it has. Continued lines are joined here, because the parser leaves comments between them in its text.
 */
import { DockerfileParser, type Instruction as ParsedInstruction } from "dockerfile-ast";
import { Fault } from "../../contract/fault.ts";
import { quoted } from "../../contract/quoted-text.ts";
import { faultAt } from "./dockerfile-fault.ts";
import { splitWords } from "./words.ts";

export const DOCKERFILE_MAX_BYTES = 64 * 1024;
export const DOCKERFILE_INSTRUCTIONS_MAX = 1_000;

export interface Instruction {
  /** Number of the line, from 1. */
  line: number;
  /** The instruction in upper case. */
  keyword: string;
  flags: readonly { name: string; value: string | null }[];
  /** The text after the keyword and the flags, in one line. */
  rest: string;
  heredocs: readonly Heredoc[];
}

interface Heredoc {
  name: string;
  content: string;
  /** Verbatim, from the first line after the instruction to the line that ends it. */
  raw: string;
}

interface InstructionList {
  instructions: readonly Instruction[];
  /** From the `escape` directive; a backslash by default. */
  escapeChar: string;
}

export function readInstructions(text: string): InstructionList {
  const bytes = Buffer.byteLength(text);
  if (bytes > DOCKERFILE_MAX_BYTES) {
    throw new Fault(400, `the Dockerfile has ${bytes} bytes; at most ${DOCKERFILE_MAX_BYTES} are taken`);
  }
  if (text.includes("\0")) throw new Fault(400, "the Dockerfile has a NUL character; remove it");
  let escapeChar: string;
  let parsed: ParsedInstruction[];
  try {
    const dockerfile = DockerfileParser.parse(text);
    escapeChar = dockerfile.getEscapeCharacter();
    parsed = dockerfile.getInstructions();
  } catch (cause) {
    throw new Fault(400, "the Dockerfile cannot be read; see that its syntax is right", { cause });
  }
  if (parsed.length > DOCKERFILE_INSTRUCTIONS_MAX) {
    const count = `${parsed.length} instructions; at most ${DOCKERFILE_INSTRUCTIONS_MAX} are taken`;
    throw new Fault(400, `the Dockerfile has ${count}`);
  }
  return { instructions: parsed.map((each) => read(each, escapeChar)), escapeChar };
}

/** The common part of the parser's classes that have flags. */
interface WithFlags {
  getFlags?(): { getName(): string; getValue(): string | null }[];
}

function read(parsed: ParsedInstruction, escapeChar: string): Instruction {
  const line = parsed.getRange().start.line + 1;
  const keyword = parsed.getKeyword().toUpperCase();
  if (!/^[A-Z]+$/.test(keyword)) throw faultAt(line, `${quoted(parsed.getInstruction())} is not an instruction`);
  const flags = ((parsed as WithFlags).getFlags?.() ?? []).map((flag) => ({
    name: flag.getName(),
    value: flag.getValue(),
  }));
  const { rest, below } = joined(parsed.getRawArgumentsContent() ?? "", escapeChar);
  return { line, keyword, flags, rest: rest.trim(), heredocs: heredocsOf(rest, below, line, escapeChar) };
}

/** The instruction's line joined with its continuation lines, and the lines below. */
function joined(raw: string, escapeChar: string): { rest: string; below: string[] } {
  const [first = "", ...below] = raw.split(/\r?\n/);
  let [rest, goesOn] = withoutContinuation(first, escapeChar);
  while (goesOn && below.length > 0) {
    const next = below.shift() ?? "";
    // Comments and empty lines between continued lines are left out.
    if (/^\s*(?:#|$)/.test(next)) continue;
    const [more, goesOnAgain] = withoutContinuation(next, escapeChar);
    rest += more;
    goesOn = goesOnAgain;
  }
  return { rest, below };
}

function withoutContinuation(line: string, escapeChar: string): [text: string, goesOn: boolean] {
  const trimmed = line.replace(/[ \t]+$/, "");
  return trimmed.endsWith(escapeChar) ? [trimmed.slice(0, -escapeChar.length), true] : [line, false];
}

const HEREDOC = /^\d*<<(-?)([^<]+)$/;

/** Here-documents of the instruction. `<<` without lines below is plain text. */
function heredocsOf(rest: string, below: string[], line: number, escapeChar: string): Heredoc[] {
  const heredocs: Heredoc[] = [];
  if (below.length === 0) return heredocs;
  for (const word of splitWords(rest, escapeChar)) {
    const [, dash, quoted] = HEREDOC.exec(word) ?? [];
    if (quoted === undefined) continue;
    heredocs.push(takeHeredoc(quoted.replaceAll(/["']/g, ""), dash === "-", below, line));
  }
  if (below.length > 0) throw faultAt(line, `the line ${quoted(below[0] ?? "")} below it belongs to no here-document`);
  return heredocs;
}

function takeHeredoc(name: string, withoutTabs: boolean, below: string[], line: number): Heredoc {
  const chomped = (text: string) => (withoutTabs ? text.replace(/^\t+/, "") : text);
  const end = below.findIndex((each) => chomped(each) === name);
  if (end < 0) throw faultAt(line, `the here-document ${quoted(name)} has no end; write ${name} in a line of its own`);
  const taken = below.splice(0, end + 1);
  const content = taken.slice(0, -1).map(chomped);
  return { name, content: content.map((each) => `${each}\n`).join(""), raw: taken.join("\n") };
}
