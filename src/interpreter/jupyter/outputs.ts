/** Converts messages published by a Jupyter kernel to outputs of a cell. */
import { membersOf } from "../json-text.ts";
import type { KernelOutput } from "../kernel.ts";
import type { Received } from "./message.ts";

/** Empty for other types, such as updates of earlier displays. */
export function outputsOf({ type, content }: Received): KernelOutput[] {
  switch (type) {
    case "execute_input":
      return [{ kind: "count", count: Number((JSON.parse(content) as { execution_count?: unknown }).execution_count) }];
    case "stream":
      return streamed(JSON.parse(content) as Stream);
    case "display_data":
    case "execute_result":
      return [{ kind: "result", isMain: type === "execute_result", bundle: membersOf(content, "data") }];
    case "error":
      return [failure(JSON.parse(content) as Failure)];
    default:
      return [];
  }
}

interface Stream {
  name: string;
  text: string;
  /** Sandlot's Python kernel reports each print call separately; other kernels send the collected text. */
  parts?: string[];
}

function streamed({ name, text, parts }: Stream): KernelOutput[] {
  const kind = name === "stderr" ? "stderr" : "stdout";
  const texts = Array.isArray(parts) ? parts : [text];
  return texts.map((part) => ({ kind, text: String(part) }));
}

interface Failure {
  ename?: string;
  evalue?: string;
  traceback?: string[];
}

function failure({ ename = "", evalue = "", traceback = [] }: Failure): KernelOutput {
  return { kind: "error", name: ename, value: evalue, traceback: traceback.join("\n") };
}
