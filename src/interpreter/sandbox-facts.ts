/** Reads the identity and the environment variables of the sandbox in which the server runs. */
import { readFileSync } from "node:fs";

const SANDBOX_VARIABLES_MS = 2_000;
const SANDBOX_VARIABLES_MAX_BYTES = 16 * 1024 * 1024;

const IDENTITY_FILE = "/run/e2b/.E2B_SANDBOX_ID";
const VARIABLES_URL = "http://127.0.0.1:49983/envs";

export type Variables = Readonly<Record<string, string>>;

export interface SandboxFacts {
  /** Changes when the sandbox is copied; stays after pause and resume. */
  identity(): string;
  /** Undefined: unavailable, for example without the token of a secured sandbox. */
  variables(accessToken: string | undefined): Promise<Variables | undefined>;
}

export const ownSandbox: SandboxFacts = { identity, variables: sandboxVariables };

function identity(): string {
  try {
    return readFileSync(IDENTITY_FILE, "utf8").trim();
  } catch {
    return "";
  }
}

async function sandboxVariables(accessToken: string | undefined): Promise<Variables | undefined> {
  try {
    const response = await fetch(VARIABLES_URL, {
      headers: accessToken === undefined ? {} : { "X-Access-Token": accessToken },
      signal: AbortSignal.timeout(SANDBOX_VARIABLES_MS),
      // A kept connection would be part of every copy of the sandbox.
      keepalive: false,
    });
    if (!response.ok) return undefined;
    const text = await response.text();
    if (text.length > SANDBOX_VARIABLES_MAX_BYTES) return undefined;
    return JSON.parse(text) as Variables;
  } catch {
    return undefined;
  }
}
