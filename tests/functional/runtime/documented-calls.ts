/**
 * Runs the examples of a documentation page: each `sh` block is an example, followed by the block with its response;
 * `bash` blocks are definitions that the examples use. In responses, `…` stands for anything.
 */
type AnswerKind = "json" | "text" | "http";

interface Example {
  /** The heading above it, without backticks. */
  section: string;
  script: string;
  kind: AnswerKind;
  answer: string;
}

interface RunnablePage {
  definitions: string;
  examples: Example[];
}

interface Block {
  section: string;
  language: string;
  code: string;
  /** Where it begins and ends, in characters. */
  start: number;
  end: number;
}

const BLOCK_OR_HEADING = /^#{1,6} (?<heading>[^\n]+)$|^```(?<language>\w*)\n(?<code>.*?)^```$/gms;

export function runnablePage(markdown: string): RunnablePage {
  const blocks = blocksOf(markdown);
  const examples = blocks.flatMap((block, at) => {
    if (block.language !== "sh") return [];
    const next = blocks[at + 1];
    const isBeside = next !== undefined && markdown.slice(block.end, next.start).trim() === "";
    if (!isBeside || !isAnswerKind(next.language)) throw new Error(`no answer follows this example:\n${block.code}`);
    return [{ section: block.section, script: block.code, kind: next.language, answer: next.code }];
  });
  const definitions = blocks.filter(({ language }) => language === "bash").map(({ code }) => code);
  return { definitions: definitions.join("\n"), examples };
}

/** Headings that consist only of code: the names of calls. */
export function codeHeadings(markdown: string): string[] {
  return [...markdown.matchAll(/^#{1,6} `([^`]+)`$/gm)].map(([, name = ""]) => name);
}

function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  let section = "";
  for (const match of markdown.matchAll(BLOCK_OR_HEADING)) {
    const { heading, language, code } = match.groups ?? {};
    section = heading?.replaceAll("`", "") ?? section;
    if (language === undefined || code === undefined) continue;
    blocks.push({ section, language, code, start: match.index, end: match.index + match[0].length });
  }
  return blocks;
}

function isAnswerKind(language: string): language is AnswerKind {
  return language === "json" || language === "text" || language === "http";
}

/** Undefined if `actual` matches the page; else both, in the form in which they were compared. */
export function difference(
  { kind, answer }: Example,
  actual: string,
): { expected: string; actual: string } | undefined {
  if (kind === "http") return httpDifference(answer, actual);
  const form = kind === "json" ? compact : (text: string) => text.trimEnd();
  const [expected, given] = [form(answer), form(actual)];
  return pattern(expected).test(given) ? undefined : { expected, actual: given };
}

/** The status, the headers that the page names, and the body if the page has one. */
function httpDifference(answer: string, actual: string): { expected: string; actual: string } | undefined {
  const [wantedHead = "", wantedBody] = answer.trimEnd().split("\n\n");
  const [wantedStatus = "", ...wantedHeaders] = wantedHead.split("\n");
  const headEnd = actual.indexOf("\r\n\r\n");
  const [status = "", ...headers] = actual.slice(0, headEnd).split("\r\n");
  const present = new Set(headers.map(lowerName));
  const hasAll = wantedHeaders.every((header) => present.has(lowerName(header)));
  const hasBody = wantedBody === undefined || actual.slice(headEnd + 4).trimEnd() === wantedBody;
  return headEnd > 0 && status === wantedStatus && hasAll && hasBody ? undefined : { expected: answer, actual };
}

function lowerName(header: string): string {
  return header.replace(/^[^:]+/, (name) => name.toLowerCase());
}

/** JSON, of one value or of several, without the white space between its parts. */
function compact(json: string): string {
  return json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, (_, string: string | undefined) => string ?? "");
}

/** A placeholder never reaches beyond the string, number or line that contains it. */
function pattern(expected: string): RegExp {
  const parts = expected.split("…").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join('[^",{}\\n]+')}$`);
}
