/**
 * The named servers of the gateway: npm package, settings, and how each setting is passed. Secrets go into variables,
 * never into arguments, which every process in the sandbox can read.
 */

/** The template's npm packages. */
const PACKAGES_FOLDER = "/opt/mcp";
/** Servers keep their state here; their user may write to it. */
export const STATE_FOLDER = "/var/lib/mcp-gateway";

/** How a setting is passed: as a variable, or, for paths, which are always required, as one argument each. */
export type Setting = { type: "text" | "number"; variable: string; required: boolean } | { type: "paths" };

export interface CatalogueServer {
  package: string;
  /** Relative to the package; absent: `dist/index.js`. */
  program?: string;
  settings: Readonly<Record<string, Setting>>;
  variables?: Readonly<Record<string, string>>;
}

const secret = (variable: string): Setting => ({ type: "text", variable, required: true });
const text = (variable: string): Setting => ({ type: "text", variable, required: false });
const number = (variable: string): Setting => ({ type: "number", variable, required: false });

export const CATALOGUE: Readonly<Record<string, CatalogueServer>> = {
  airtable: {
    package: "airtable-mcp-server",
    program: "dist/main.js",
    settings: { airtableApiKey: secret("AIRTABLE_API_KEY"), nodeenv: text("NODE_ENV") },
  },
  brave: {
    package: "@brave/brave-search-mcp-server",
    settings: { apiKey: secret("BRAVE_API_KEY") },
    variables: { BRAVE_MCP_TRANSPORT: "stdio" },
  },
  context7: { package: "@upstash/context7-mcp", settings: { apiKey: secret("CONTEXT7_API_KEY") } },
  exa: { package: "exa-mcp-server", program: "dist/stdio.cjs", settings: { apiKey: secret("EXA_API_KEY") } },
  filesystem: { package: "@modelcontextprotocol/server-filesystem", settings: { paths: { type: "paths" } } },
  firecrawl: {
    package: "firecrawl-mcp",
    settings: {
      apiKey: secret("FIRECRAWL_API_KEY"),
      url: text("FIRECRAWL_API_URL"),
      retryMax: number("FIRECRAWL_RETRY_MAX_ATTEMPTS"),
      retryDelay: number("FIRECRAWL_RETRY_INITIAL_DELAY"),
      retryMaxDelay: number("FIRECRAWL_RETRY_MAX_DELAY"),
      retryBackoffFactor: number("FIRECRAWL_RETRY_BACKOFF_FACTOR"),
      creditWarningThreshold: number("FIRECRAWL_CREDIT_WARNING_THRESHOLD"),
      creditCriticalThreshold: number("FIRECRAWL_CREDIT_CRITICAL_THRESHOLD"),
    },
  },
  memory: {
    package: "@modelcontextprotocol/server-memory",
    settings: {},
    variables: { MEMORY_FILE_PATH: `${STATE_FOLDER}/memory.jsonl` },
  },
  notion: {
    package: "@notionhq/notion-mcp-server",
    program: "bin/cli.mjs",
    settings: { internalIntegrationToken: secret("NOTION_TOKEN") },
  },
  sequentialthinking: { package: "@modelcontextprotocol/server-sequential-thinking", settings: {} },
  stripe: { package: "@stripe/mcp", settings: { secretKey: secret("STRIPE_SECRET_KEY") } },
  tavily: { package: "tavily-mcp", program: "build/index.js", settings: { apiKey: secret("TAVILY_API_KEY") } },
};

/** The program of a catalogue server in the template. */
export function programOf(name: string): string {
  const { package: folder, program = "dist/index.js" } = CATALOGUE[name] ?? {};
  return `${PACKAGES_FOLDER}/node_modules/${folder}/${program}`;
}

const NEEDS_BROWSER = "it needs a browser, which this template leaves out for its size; the template `desktop` has one";
const PYTHON_ONLY = "there is no npm package of it";

/** Names that users are likely to try, and why they are not served. */
export const NOT_SERVED: Readonly<Record<string, string>> = {
  desktopCommander: "its npm package needs a version of another one that npm does not have",
  fetch: PYTHON_ONLY,
  git: PYTHON_ONLY,
  playwright: NEEDS_BROWSER,
  puppeteer: NEEDS_BROWSER,
  sqlite: PYTHON_ONLY,
  time: PYTHON_ONLY,
};
