/** MCP servers of a catalogue behind one address, for the option `mcp` of clients; they start them by `mcp-gateway`. */
import type { TemplateDefinition } from "../../src/contract/template-definition.ts";

export const mcpGateway: TemplateDefinition = {
  name: "mcp-gateway",
  id: "sandlotmcpgateway000",
  description: "MCP servers behind one address",
  packages: [],
  finish: [],
  npm: { folder: "npm", target: "/opt/mcp" },
  programs: { "/opt/sandlot/mcp-gateway.js": "src/mcp/main.ts" },
  start: null,
  cpuCount: 2,
  memoryMB: 2048,
  diskSizeMB: 10_240,
};
