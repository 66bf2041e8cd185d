/** `code-interpreter-v1` under the name by which R and Java were asked for before that template had them. */
import type { TemplateDefinition } from "../../src/contract/template-definition.ts";
import { codeInterpreter } from "../code-interpreter-v1/definition.ts";

export const codeInterpreterFull: TemplateDefinition = Object.assign({}, codeInterpreter, {
  name: "code-interpreter-full",
  id: "sandlotinterpreter01",
  filesAlsoOf: codeInterpreter.name,
  npm: { folder: "../code-interpreter-v1/npm", target: "/opt/sandlot/javascript" },
});
