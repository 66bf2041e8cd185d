/**
 * Message descriptors as plain data. Generated files carry theirs in binary, and the library decodes that by reflection
 * at every start, which takes longer than the rest of the guest's start. So the guest's compiler writes the decoded
 * descriptors into the program (`plainOf`), and the guest only links them (`plainFile`).
 */
import type { DescEnum, DescFile, DescMessage } from "@bufbuild/protobuf";

/** All descriptors of one file of messages; the file itself is the first node. */
interface PlainFile {
  nodes: Node[];
  /** Triples: a node, the name of a property, the node that is its value. */
  links: (string | number)[];
  /** Quadruples: a node, the name of a property, the index of the imported file with its value, the value's name. */
  imported: (string | number)[];
}

interface Node {
  [property: string]: unknown;
}

/** Every object of a file's descriptor, once, and the links between them. */
export function plainOf(file: DescFile): string {
  const plain: PlainFile = { nodes: [], links: [], imported: [] };
  const places = new Map<object, number>();
  const place = (value: object): number => {
    const known = places.get(value);
    if (known !== undefined) return known;
    const node = (Array.isArray(value) ? [] : {}) as Node;
    const at = plain.nodes.push(node) - 1;
    places.set(value, at);
    for (const [property, held] of Object.entries(value)) {
      if (property === "proto") node.proto = nameOf(held);
      else if (property === "dependencies") node.dependencies = [];
      else if (typeof held === "function") requireNoValue(property, held);
      else if (isOf(held, file)) plain.imported.push(at, property, file.dependencies.indexOf(held.file), held.typeName);
      else if (typeof held === "object" && held !== null) plain.links.push(at, property, place(held));
      else node[property] = held;
    }
    return at;
  };
  place(file);
  return JSON.stringify(plain);
}

/** No more of the original definition is needed. */
function nameOf(proto: { name: string; package?: string }): Node {
  return proto.package === undefined ? { name: proto.name } : { name: proto.name, package: proto.package };
}

/** Whether another file describes it. */
function isOf(held: unknown, file: DescFile): held is DescEnum | DescMessage {
  return typeof held === "object" && held !== null && "file" in held && held.file !== file;
}

/** Functions are not data: `plainFile` adds the ones that every descriptor has. */
function requireNoValue(property: string, held: () => unknown): void {
  if (property === "toString" || (property === "getDefaultValue" && held() === undefined)) return;
  throw new Error(`a description has the function ${property}, which cannot be written as data`);
}

/** Replaces the library's `fileDesc`: the same descriptor, from the output of `plainOf`. */
export function plainFile(text: string, imports: readonly DescFile[] = []): DescFile {
  const { nodes, links, imported }: PlainFile = JSON.parse(text);
  for (const node of nodes) {
    if (node.kind === undefined) continue;
    node.toString = describe;
    if (node.kind === "field" && node.fieldKind !== "list" && node.fieldKind !== "map")
      node.getDefaultValue = noDefault;
  }
  for (let at = 0; at < links.length; at += 3) {
    const node = nodes[links[at] as number];
    if (node !== undefined) node[links[at + 1] as string] = nodes[links[at + 2] as number];
  }
  for (let at = 0; at < imported.length; at += 4) {
    const node = nodes[imported[at] as number];
    const file = imports[imported[at + 2] as number];
    if (node !== undefined) node[imported[at + 1] as string] = named(file, imported[at + 3] as string);
  }
  const file = nodes[0] as unknown as DescFile;
  file.dependencies.push(...imports);
  return file;
}

function named(file: DescFile | undefined, typeName: string): DescEnum | DescMessage {
  const described = [...(file?.messages ?? []), ...(file?.enums ?? [])];
  const found = described.find((one) => one.typeName === typeName);
  if (found === undefined) throw new Error(`no imported file describes ${typeName}`);
  return found;
}

/** No message of this project has a custom default. */
function noDefault(): undefined {
  return undefined;
}

/** The name in the library's errors. */
function describe(this: Node): string {
  const parent = this.parent as { typeName: string };
  switch (this.kind) {
    case "file":
      return `file ${this.name}.proto`;
    case "enum_value":
      return `enum value ${parent.typeName}.${this.name}`;
    case "field":
    case "oneof":
    case "rpc":
      return `${this.kind} ${parent.typeName}.${this.name}`;
    default:
      return `${this.kind} ${this.typeName}`;
  }
}
