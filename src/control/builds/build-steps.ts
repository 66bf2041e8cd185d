/** Parses the steps of a build request into steps of the host, and checks the arguments of each type. */
import { Fault } from "../../contract/fault.ts";
import type { BuildStep } from "../../contract/internal/host.ts";
import { ENV_TOTAL_MAX_BYTES } from "../../contract/management/limits.ts";
import type { RequestedStep } from "../../contract/management/template-build.ts";
import { quoted } from "../../contract/quoted-text.ts";
import { uploadedFilesName } from "./uploads.ts";

/** The kernel starts no process with a longer argument (MAX_ARG_STRLEN); the rest is for the text around it. */
export const STEP_ARGUMENT_MAX_BYTES = 120 * 1024;
/** PATH_MAX without its terminating zero. */
const STEP_PATH_MAX_BYTES = 4095;

const TYPES = "COPY, ADD, RUN, ENV, ARG, WORKDIR and USER";
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
/**
 * A name that useradd accepts or a number, optionally with a group; or an expression with variables, which the host
 * expands.
 */
const USER =
  /^(?:(?:[A-Za-z_][A-Za-z0-9_.-]{0,31}|\d{1,5})(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?|[\w.-]*\$[\w${}:.+?-]{1,255})$/;
const OWNER = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$/;
const MODE = /^[0-7]{1,5}$/;

export function parseSteps(teamId: string, steps: readonly RequestedStep[], stepsMax: number): BuildStep[] {
  refuseTooMany(steps.length, stepsMax);
  return steps.map((step, at) => new StepReader(teamId, step, at + 1).read());
}

export function refuseTooMany(steps: number, stepsMax: number): void {
  if (steps > stepsMax) throw new Fault(400, `the build has ${steps} steps; at most ${stepsMax} are taken`);
}

class StepReader {
  readonly #type: string;
  readonly #args: readonly string[];

  constructor(
    readonly teamId: string,
    readonly step: RequestedStep,
    readonly number: number,
  ) {
    this.#type = step.type.toUpperCase();
    this.#args = step.args;
  }

  read(): BuildStep {
    for (const [at, arg] of this.#args.entries()) this.#refuseUnfit(arg, at);
    const force = this.step.force ?? false;
    switch (this.#type) {
      case "RUN":
        return { type: "run", force, ...this.#run() };
      case "COPY":
      case "ADD":
        return { type: "copy", force, ...this.#copy() };
      case "ENV":
      case "ARG":
        return { type: "env", force, variables: this.#variables() };
      case "WORKDIR":
        return { type: "workdir", force, path: this.#path(this.#only("a path"), "path") };
      case "USER":
        return { type: "user", force, ...this.#user() };
      default:
        throw new Fault(
          400,
          `step ${this.number} is of the unknown type ${quoted(this.step.type)}; known types are ${TYPES}`,
        );
    }
  }

  #run() {
    const [command, user] = this.#args;
    if (command === undefined || command.trim() === "" || this.#args.length > 2) {
      throw this.#refuse("takes a command and optionally a user");
    }
    return { command, user: user === undefined || user === "" ? null : this.#checkedUser(user) };
  }

  #copy() {
    const [source, target, owner = "", mode = ""] = this.#args;
    if (source === undefined || target === undefined || this.#args.length > 4) {
      throw this.#refuse("takes a source, a target and optionally an owner and a mode");
    }
    const { filesHash } = this.step;
    if (filesHash === undefined || filesHash === null)
      throw this.#refuse("has no filesHash, so there is nothing to copy");
    if (owner !== "" && !OWNER.test(owner))
      throw this.#refuse(`has the owner ${quoted(owner)}; write user or user:group`);
    if (mode !== "" && !MODE.test(mode)) throw this.#refuse(`has the mode ${quoted(mode)}; write it in octal, as 0755`);
    return {
      files: uploadedFilesName(this.teamId, filesHash),
      source: this.#path(source, "source"),
      target: this.#path(target, "target"),
      owner: owner === "" ? null : owner,
      mode: mode === "" ? null : mode,
    };
  }

  #variables(): [string, string][] {
    if (this.#args.length === 0 || this.#args.length % 2 === 1) {
      throw this.#refuse(`takes names and values in turn, got ${this.#args.length} arguments`);
    }
    const pairs: [string, string][] = [];
    for (let at = 0; at < this.#args.length; at += 2) {
      const name = this.#args[at] ?? "";
      if (!VARIABLE.test(name)) throw this.#refuse(`has ${quoted(name)}, which is not a variable name`);
      pairs.push([name, this.#args[at + 1] ?? ""]);
    }
    if (Buffer.byteLength(this.#args.join("")) > ENV_TOTAL_MAX_BYTES) {
      throw this.#refuse(`has more than ${ENV_TOTAL_MAX_BYTES} bytes of variables`);
    }
    return pairs;
  }

  #user() {
    const [name = "", sudo = "false", ...more] = this.#args;
    if (more.length > 0 || (sudo !== "true" && sudo !== "false" && sudo !== "")) {
      throw this.#refuse('takes a name, and "true" if it may use sudo');
    }
    return { name: this.#checkedUser(name), sudo: sudo === "true" };
  }

  #only(what: string): string {
    const [only, ...more] = this.#args;
    if (only === undefined || more.length > 0) throw this.#refuse(`takes ${what}, got ${this.#args.length} arguments`);
    return only;
  }

  #path(path: string, what: string): string {
    if (path === "") throw this.#refuse(`has an empty ${what}`);
    const bytes = Buffer.byteLength(path);
    if (bytes > STEP_PATH_MAX_BYTES)
      throw this.#refuse(`has a ${what} of ${bytes} bytes; the bound is ${STEP_PATH_MAX_BYTES}`);
    return path;
  }

  #checkedUser(name: string): string {
    if (!USER.test(name)) throw this.#refuse(`has ${quoted(name)}, which is not a user name`);
    return name;
  }

  #refuseUnfit(arg: string, at: number): void {
    if (arg.includes("\0")) throw this.#refuse(`has a NUL character in argument ${at + 1}`);
    const bytes = Buffer.byteLength(arg);
    if (bytes > STEP_ARGUMENT_MAX_BYTES) {
      throw this.#refuse(`has ${bytes} bytes in argument ${at + 1}; the bound is ${STEP_ARGUMENT_MAX_BYTES}`);
    }
  }

  #refuse(problem: string): Fault {
    return new Fault(400, `step ${this.number}, ${this.#type}, ${problem}`);
  }
}
