/**
 * Turns a cell into a script for the kernel's global scope. Names of the cell become global variables, which persist
 * and may be declared again; imports and top-level `await` work; the value of the last expression is the result. Edits
 * are made in place, so that line numbers in errors are those of the cell.
 */
import { type Node, Parser, type Program } from "acorn";
import { SourceEdits } from "./edits.ts";
import { ENUM_OR_NAMESPACE, Unsupported, withoutTypes } from "./plain-javascript.ts";
import { awaitsAtTop, importMetas, nestedVariables } from "./syntax.ts";

export interface Script {
  source: string;
  /** The script returns a promise of `{ value }`, or of nothing. */
  isAsync: boolean;
  /** Whether the script's value is a result. */
  hasValue: boolean;
  /** Number of columns by which its first line is longer than the cell's. */
  shift: number;
  /** Global variables that it declares. */
  names: readonly string[];
}

export class CellSyntaxError extends Error {
  override readonly name = "SyntaxError";

  constructor(
    message: string,
    readonly line: number,
    readonly column: number,
  ) {
    super(message);
  }
}

export function scriptOf(code: string, language: "javascript" | "typescript"): Script {
  const object = objectOf(code);
  if (object !== undefined) return object;
  const { source, program } = language === "typescript" ? parseTyped(code) : parseEither(code);
  return program.body.some((statement) => statement.type === "ImportDeclaration") || awaitsAtTop(program)
    ? asyncScript(source, program)
    : plainScript(source, program);
}

function parse(source: string): Program {
  try {
    return Parser.parse(source, {
      ecmaVersion: "latest",
      sourceType: "script",
      allowAwaitOutsideFunction: true,
      allowImportExportEverywhere: true,
      allowHashBang: true,
    });
  } catch (thrown) {
    const { message, loc } = thrown as Error & { loc?: { line: number; column: number } };
    throw new CellSyntaxError(message.replace(/ \(\d+:\d+\)$/, ""), loc?.line ?? 1, loc?.column ?? 0);
  }
}

/** Accepts types in JavaScript cells too: users forget to select TypeScript. */
function parseEither(code: string): { source: string; program: Program } {
  try {
    return { source: code, program: parse(code) };
  } catch (thrown) {
    try {
      return parseTyped(code);
    } catch {
      throw thrown;
    }
  }
}

function parseTyped(code: string): { source: string; program: Program } {
  let first: unknown;
  for (const remove of withoutTypes(code)) {
    try {
      const source = remove();
      return { source, program: parse(source) };
    } catch (thrown) {
      first ??= thrown;
      if (thrown instanceof Unsupported) throw unsupported(thrown, first);
    }
  }
  throw first instanceof CellSyntaxError ? first : new CellSyntaxError(String((first as Error).message), 1, 0);
}

/** Keeps the position of the error, if known. */
function unsupported({ message }: Unsupported, met: unknown): CellSyntaxError {
  return met instanceof CellSyntaxError
    ? new CellSyntaxError(message, met.line, met.column)
    : new CellSyntaxError(message, 1, 0);
}

/** `{ a: 1 }` alone is meant as an object, not as a block with a label. */
function objectOf(source: string): Script | undefined {
  if (!/^\s*\{/.test(source) || /;\s*$/.test(source)) return undefined;
  const wrapped = `(${source}\n)`;
  try {
    const program = parse(wrapped);
    const [only, ...others] = program.body;
    if (others.length > 0 || only?.type !== "ExpressionStatement" || only.expression.type !== "ObjectExpression") {
      return undefined;
    }
    return awaitsAtTop(program)
      ? asyncScript(wrapped, program, 1)
      : { source: wrapped, isAsync: false, hasValue: true, shift: 1, names: [] };
  } catch {
    return undefined;
  }
}

/** Changes only declarations: `let`, `const` and classes become `var`, so that a name can be declared again. */
function plainScript(source: string, program: Program): Script {
  const edits = new SourceEdits(source);
  const names = new Set<string>();
  replaceImportMeta(edits, program);
  for (const statement of program.body) {
    const declaration = withoutExport(edits, statement);
    if (declaration?.type === "VariableDeclaration") {
      const { start, kind, declarations } = declaration;
      for (const { id } of declarations) namesIn(id, names);
      if (kind === "var") continue;
      edits.replace(start, start + kind.length, "var");
      for (const { init, end } of declarations) if (init === null) edits.insert(end, " = undefined");
    } else if (declaration?.type === "ClassDeclaration") {
      const name = declaration.id?.name ?? "_default";
      names.add(name);
      edits.insert(declaration.start, `var ${name} = `);
      edits.insert(declaration.end, ";");
    }
  }
  return {
    source: edits.text(),
    isAsync: false,
    hasValue: hasValue(source, program),
    shift: 0,
    names: [...names],
  };
}

/** Wraps the cell in an async function that assigns global variables instead of declaring local ones. */
function asyncScript(source: string, program: Program, shiftBefore = 0): Script {
  const edits = new SourceEdits(source);
  const names = new Set<string>();
  const functions: string[] = [];
  replaceImportMeta(edits, program);
  for (const [index, statement] of program.body.entries()) {
    if (statement.type === "ImportDeclaration") {
      edits.replaceKeepingLines(statement.start, statement.end, importing(statement, names));
      continue;
    }
    const declaration = withoutExport(edits, statement);
    if (declaration === undefined) continue;
    switch (declaration.type) {
      case "VariableDeclaration":
        assignInstead(edits, declaration, names);
        break;
      case "ClassDeclaration": {
        const name = declaration.id?.name ?? "_default";
        names.add(name);
        edits.insert(declaration.start, `;${name} = `);
        edits.insert(declaration.end, ";");
        break;
      }
      case "FunctionDeclaration":
        if (declaration.id !== null) functions.push(declaration.id.name);
        break;
      case "ExpressionStatement":
        if (index !== program.body.length - 1) break;
        edits.insert(declaration.start, ";return { value: (", "first");
        edits.insert(source[declaration.end - 1] === ";" ? declaration.end - 1 : declaration.end, ") }");
        break;
      default:
        for (const variable of nestedVariables(declaration)) assignInstead(edits, variable, names);
    }
  }
  for (const name of functions) names.add(name);
  const declared = names.size === 0 ? "" : `var ${[...names].join(", ")}; `;
  const head = `${declared}(async () => { ${functions.map((name) => `globalThis.${name} = ${name}; `).join("")}`;
  return {
    source: `${head}${edits.text()}\n})()`,
    isAsync: true,
    hasValue: hasValue(source, program),
    shift: head.length + shiftBefore,
    names: [...names],
  };
}

function hasValue(source: string, program: Program): boolean {
  const last = program.body.at(-1);
  return last?.type === "ExpressionStatement" && !ENUM_OR_NAMESPACE.test(source.slice(last.start, last.end));
}

type Statement = Program["body"][number];
type Variables = Extract<Statement, { type: "VariableDeclaration" }>;
type Import = Extract<Statement, { type: "ImportDeclaration" }>;

/** Removes `export`: declarations remain, lists of names go entirely. */
function withoutExport(edits: SourceEdits, statement: Statement): Statement | undefined {
  if (statement.type === "ExportNamedDeclaration" && statement.declaration) {
    edits.replace(statement.start, statement.declaration.start, "");
    return statement.declaration;
  }
  if (statement.type === "ExportDefaultDeclaration") {
    const { declaration } = statement;
    const isNamed = /^(?:Function|Class)Declaration$/.test(declaration.type);
    edits.replace(statement.start, declaration.start, isNamed ? "" : ";var _default = ");
    return isNamed ? (declaration as Statement) : undefined;
  }
  if (statement.type === "ExportNamedDeclaration" || statement.type === "ExportAllDeclaration") {
    edits.replaceKeepingLines(statement.start, statement.end, "");
    return undefined;
  }
  return statement;
}

function assignInstead(
  edits: SourceEdits,
  declaration: Variables & { isLoopHead?: boolean },
  names: Set<string>,
): void {
  for (const { id, init, end } of declaration.declarations) {
    namesIn(id, names);
    if (init === null && declaration.isLoopHead !== true) edits.insert(end, " = undefined");
  }
  const afterKeyword = declaration.start + declaration.kind.length;
  if (declaration.isLoopHead === true) {
    edits.replace(declaration.start, afterKeyword, "");
    return;
  }
  edits.replace(declaration.start, afterKeyword, ";(");
  const last = declaration.declarations.at(-1);
  edits.insert(last?.end ?? declaration.end, ");");
}

function importing({ specifiers, source, attributes }: Import, names: Set<string>): string {
  const settings = attributes.map(({ key, value }) => `${keyText(key)}: ${JSON.stringify(value.value)}`).join(", ");
  const module = `await import(${JSON.stringify(source.value)}${settings === "" ? "" : `, { with: { ${settings} } }`})`;
  const parts: string[] = [];
  let whole = "";
  for (const specifier of specifiers) {
    const local = specifier.local.name;
    names.add(local);
    if (specifier.type === "ImportNamespaceSpecifier") whole = `${local} = `;
    else if (specifier.type === "ImportDefaultSpecifier") parts.push(`default: ${local}`);
    else parts.push(`${keyText(specifier.imported)}: ${local}`);
  }
  return parts.length === 0 ? `;${whole}${module};` : `;({ ${parts.join(", ")} } = ${whole}${module});`;
}

function keyText(key: Node & { name?: string; value?: unknown }): string {
  return key.type === "Identifier" ? String(key.name) : JSON.stringify(key.value);
}

/** Collects the names that a pattern binds. */
function namesIn(pattern: Variables["declarations"][number]["id"], names: Set<string>): void {
  switch (pattern.type) {
    case "Identifier":
      names.add(pattern.name);
      break;
    case "ObjectPattern":
      for (const part of pattern.properties) namesIn(part.type === "Property" ? part.value : part.argument, names);
      break;
    case "ArrayPattern":
      for (const part of pattern.elements) if (part !== null) namesIn(part, names);
      break;
    case "AssignmentPattern":
      namesIn(pattern.left, names);
      break;
    case "RestElement":
      namesIn(pattern.argument, names);
      break;
  }
}

function replaceImportMeta(edits: SourceEdits, program: Program): void {
  for (const { start, end } of importMetas(program)) edits.replace(start, end, "__importMeta");
}
