/** All templates that come with Sandlot, but `base`, without which there is no server. */
import type { TemplateDefinition } from "../src/contract/template-definition.ts";
import { codeInterpreterFull } from "./code-interpreter-full/definition.ts";
import { codeInterpreter } from "./code-interpreter-v1/definition.ts";
import { desktop } from "./desktop/definition.ts";
import { mcpGateway } from "./mcp-gateway/definition.ts";

export const DEFINITIONS: readonly TemplateDefinition[] = [codeInterpreter, codeInterpreterFull, desktop, mcpGateway];
