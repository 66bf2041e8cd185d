/**
 * Runs our programs that talk to untrusted peers as separate processes: with their own user id, only the named
 * capabilities, an empty environment, resource limits, and standard input as their only source of instructions. They
 * end with the server in every case.
 */
import { chmodSync, closeSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { timeFactorEnv } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { cannotStart, IGNORE_STOP_SIGNALS } from "./command.ts";

/** Users other than root may not be able to reach the runtime's path, so the runtime is passed as an open file. */
const RUNTIME = "/proc/self/fd/3";

/** Bundles a program with its imports into one file, in a world-readable folder of its own below this one. */
export async function bundleProgram(entry: string, folder: string, name: string): Promise<string> {
  const { outputs } = await Bun.build({ entrypoints: [entry], target: "bun" });
  const text = await outputs[0]?.text();
  if (text === undefined) throw new Fault(500, `the program ${entry} could not be bundled`);
  const own = join(folder, name);
  mkdirSync(own, { recursive: true });
  chmodSync(own, 0o755);
  const path = join(own, `${name}.js`);
  writeFileSync(path, text, { mode: 0o644 });
  chmodSync(path, 0o644);
  return path;
}

interface Unprivileged {
  program: string;
  uid: number;
  files: number;
  /** Limit of its own memory, if any. */
  dataBytes?: number;
  /** A capability that it keeps, as setpriv names it. */
  capability?: string;
  /** Its environment, besides the factor of internal timeouts. */
  env?: Readonly<Record<string, string>>;
}

export function spawnUnprivileged({ program, uid, files, dataBytes, capability, env = {} }: Unprivileged) {
  const data = dataBytes === undefined ? [] : [`--data=${dataBytes}`];
  const bounds = [`--nofile=${files}:${files}`, ...data, "--core=0"];
  const identity = [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"];
  const kept = capability === undefined ? "" : `,+${capability}`;
  const rights = ["bounding-set", "inh-caps", "ambient-caps"].map((set) => `--${set}=-all${kept}`);
  const alone = ["setpriv", ...identity, "--no-new-privs", ...rights, "--pdeathsig=KILL", "--"];
  const runtime = openSync(process.execPath, "r");
  try {
    const shell = ["/bin/sh", "-c", `${IGNORE_STOP_SIGNALS}exec "$@"`, "sh"];
    return Bun.spawn([...shell, "prlimit", ...bounds, "--", ...alone, RUNTIME, program], {
      stdio: ["pipe", "pipe", "pipe", runtime],
      env: { ...timeFactorEnv(), ...env },
      cwd: "/",
    });
  } catch (cause) {
    throw cannotStart("prlimit", cause);
  } finally {
    closeSync(runtime);
  }
}
