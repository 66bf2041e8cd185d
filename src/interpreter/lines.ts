/** Formats outputs of a cell as lines of the client's stream: JSON, pure ASCII. */
import { asciiLine } from "./json-text.ts";
import type { KernelOutput } from "./kernel.ts";

/** Members of a result by MIME type; all others go to `extra`. */
const MEMBERS: Readonly<Record<string, string>> = {
  "text/plain": "text",
  "text/html": "html",
  "text/markdown": "markdown",
  "image/svg+xml": "svg",
  "image/png": "png",
  "image/jpeg": "jpeg",
  "application/pdf": "pdf",
  "text/latex": "latex",
  "application/json": "json",
  "application/javascript": "javascript",
  "e2b/data": "data",
  "e2b/chart": "chart",
};

export const KEEPALIVE_LINE = '{"type":"keepalive"}\n';
export const END_LINE = '{"type":"end_of_execution"}\n';

export function lineOf(output: KernelOutput): string {
  return `${asciiLine(jsonOf(output))}\n`;
}

function jsonOf(output: KernelOutput): string {
  switch (output.kind) {
    case "count":
      return JSON.stringify({ type: "number_of_executions", execution_count: output.count });
    case "stdout":
    case "stderr":
      return JSON.stringify({ type: output.kind, text: output.text, timestamp: now() });
    case "error": {
      const { name, value, traceback } = output;
      return JSON.stringify({ type: "error", name, value, traceback });
    }
    case "result":
      return resultJson(output.isMain, output.bundle);
  }
}

/** UTC in the format of Python clients. */
function now(): string {
  return new Date().toISOString().replace("Z", "000+00:00");
}

function resultJson(isMain: boolean, bundle: Readonly<Record<string, string>>): string {
  const members: string[] = [];
  const extra: string[] = [];
  for (const [type, json] of Object.entries(bundle)) {
    const member = Object.hasOwn(MEMBERS, type) ? MEMBERS[type] : undefined;
    if (member === undefined) extra.push(`${JSON.stringify(type)}:${json}`);
    else members.push(`"${member}":${member === "text" ? withoutQuotes(json) : json}`);
  }
  const head = `"type":"result","is_main_result":${isMain},"extra":{${extra.join()}}`;
  return `{${[head, ...members].join()}}`;
}

/** Shows `'abc'` as `abc`, as clients expect. */
function withoutQuotes(json: string): string {
  const text: unknown = JSON.parse(json);
  if (typeof text !== "string") return json;
  const isQuoted = text.length > 1 && /^['"]/.test(text) && text.at(0) === text.at(-1);
  return isQuoted ? JSON.stringify(text.slice(1, -1)) : json;
}
