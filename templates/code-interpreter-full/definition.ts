/** All that `code-interpreter-v1` has, and R and Java. */
import type { TemplateDefinition } from "../../src/contract/template-definition.ts";
import { codeInterpreter } from "../code-interpreter-v1/definition.ts";

export const codeInterpreterFull: TemplateDefinition = Object.assign({}, codeInterpreter, {
  name: "code-interpreter-full",
  id: "sandlotinterpreter01",
  description: "Python, JavaScript, TypeScript, bash, R and Java, cell by cell",
  filesAlsoOf: codeInterpreter.name,
  packages: [...codeInterpreter.packages, "r-base-core", "r-cran-irkernel", "openjdk-21-jdk-headless"],
  npm: { folder: "../code-interpreter-v1/npm", target: "/opt/sandlot/javascript" },
});
