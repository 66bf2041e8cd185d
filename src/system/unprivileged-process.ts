/**
 * Programs of ours that speak with strangers run as processes of their own: with an id of their own and no rights but
 * those that are named, nothing of our environment, bounds on what they may take, and standard input as the only thing
 * they are told by. They end with the server, however that ends.
 */
import { chmodSync, closeSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { timeFactorEnv } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { cannotStart, IGNORE_STOP_SIGNALS } from "./command.ts";

/** The runtime lies where others than root may have no way to; it comes as an open file instead. */
const RUNTIME = "/proc/self/fd/3";

/** The program with all that it imports, as one file, in a folder of its own below this one that everybody can read. */
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
  /** What it may have open at once. */
  files: number;
  /** Of its own memory, if there is a bound. */
  dataBytes?: number;
  /** A right that it keeps, as setpriv knows it. */
  capability?: string;
  /** Its whole environment, besides the factor of internal timeouts. */
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
