/** Executes each kind of step in a running sandbox and returns the context for the next step. */
import type { Blobs } from "../blobs/blobs.ts";
import { Fault } from "../contract/fault.ts";
import type { BuildStep } from "../contract/internal/host.ts";
import { type BuildContext, placeOf, variablesOf } from "./build-context.ts";
import type { BuildSandbox } from "./build-sandbox.ts";
import type { CommandOutput } from "./command-output.ts";
import { expand } from "./variables.ts";

interface StepSurroundings {
  sandbox: BuildSandbox;
  /** Uploaded archives. */
  files: Pick<Blobs, "open">;
  output: CommandOutput;
}

type DiskStep = Exclude<BuildStep, { type: "env" }>;

export function isDiskStep(step: BuildStep): step is DiskStep {
  return step.type !== "env";
}

/** Fault 422 explains the failure to the author of the step. */
export async function runStep(
  step: DiskStep,
  context: BuildContext,
  surroundings: StepSurroundings,
): Promise<BuildContext> {
  switch (step.type) {
    case "run":
      return await runCommand(step, context, surroundings);
    case "copy":
      return await copy(step, context, surroundings);
    case "workdir":
      return await makeWorkdir(step, context, surroundings);
    case "user":
      return await switchUser(step, context, surroundings);
  }
}

async function runCommand(
  { command, user }: Extract<BuildStep, { type: "run" }>,
  context: BuildContext,
  { sandbox, output }: StepSurroundings,
): Promise<BuildContext> {
  await sandbox.shell(command, { ...context, user: user ?? context.user }, output);
  return context;
}

async function copy(
  { files: name, source, target, owner, mode }: Extract<BuildStep, { type: "copy" }>,
  context: BuildContext,
  { sandbox, files }: StepSurroundings,
): Promise<BuildContext> {
  const variables = variablesOf(context);
  // At the root: any other folder might be missing, and creating it would add it to the image.
  const archive = `/.sandlot-upload-${crypto.randomUUID()}`;
  await sandbox.commands.upload(archive, "root", await files.open(name), sandbox.signal);
  await sandbox.program("unpack", {
    archive,
    source: expand(source, variables),
    target: expand(target, variables),
    workdir: context.workdir,
    user: context.user,
    owner,
    mode,
  });
  return context;
}

async function makeWorkdir(
  { path }: Extract<BuildStep, { type: "workdir" }>,
  context: BuildContext,
  { sandbox }: StepSurroundings,
): Promise<BuildContext> {
  const workdir = placeOf(context, path);
  await sandbox.commands.makeFolder(workdir, context.user, sandbox.signal);
  return { ...context, workdir };
}

async function switchUser(
  { name, sudo }: Extract<BuildStep, { type: "user" }>,
  context: BuildContext,
  { sandbox }: StepSurroundings,
): Promise<BuildContext> {
  const output = await sandbox.program("add-user", { name: expand(name, variablesOf(context)), sudo });
  const user = requireUserName(output.split("\n").at(-1) ?? "");
  return { ...context, user, home: (await sandbox.homeOf(user)) ?? "/" };
}

/** Root in the sandbox may have replaced the guest, and the name becomes the template's default user. */
function requireUserName(name: string): string {
  if (/^[\w.][\w.$-]{0,63}$/.test(name)) return name;
  throw new Fault(502, "the sandbox's runtime did not report the current user: another program took its place");
}
