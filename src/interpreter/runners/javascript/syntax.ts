/** Queries about a cell's syntax tree. */
import type { Node, Program } from "acorn";

type Variables = Extract<Program["body"][number], { type: "VariableDeclaration" }>;
type Visit = (node: Node, key: string) => "enter" | "skip";

const FUNCTIONS = /^(?:FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/;

/** Whether a cell awaits outside of every function. Class members count as functions, their computed names do not. */
export function awaitsAtTop(program: Program): boolean {
  let found = false;
  walk(program, "", (node) => {
    if (FUNCTIONS.test(node.type)) return "skip";
    if (node.type === "AwaitExpression" || (node.type === "ForOfStatement" && (node as { await?: boolean }).await)) {
      found = true;
    }
    return found ? "skip" : "enter";
  });
  return found;
}

export function importMetas(program: Program): Node[] {
  const found: Node[] = [];
  walk(program, "", (node) => {
    if (node.type === "MetaProperty" && (node as { meta?: { name?: string } }).meta?.name === "import")
      found.push(node);
    return "enter";
  });
  return found;
}

/** `var` declarations in nested blocks and loops: their scope is the whole cell. */
export function nestedVariables(statement: Node): (Variables & { isLoopHead: boolean })[] {
  const found: (Variables & { isLoopHead: boolean })[] = [];
  walk(statement, "", (node, key) => {
    if (FUNCTIONS.test(node.type)) return "skip";
    if (node.type === "VariableDeclaration" && (node as Variables).kind === "var") {
      found.push(Object.assign(node as Variables, { isLoopHead: key === "init" || key === "left" }));
    }
    return "enter";
  });
  return found;
}

function walk(node: Node, key: string, visit: Visit): void {
  if (visit(node, key) === "skip") return;
  for (const [name, value] of Object.entries(node)) {
    for (const part of Array.isArray(value) ? value : [value]) if (isNode(part)) walk(part, name, visit);
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string";
}
