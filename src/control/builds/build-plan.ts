/** The plan of a build, from its request. Its base is looked up only when the build begins. */
import { Fault } from "../../contract/fault.ts";
import { parseImageName } from "../../contract/image-name.ts";
import type { BuildOrigin, BuildStep, RegistryCredentials, StartCommand } from "../../contract/internal/host.ts";
import type { ImageRegistry, StartBuild } from "../../contract/management/template-build.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import { parseDockerfile } from "../dockerfile/dockerfile.ts";
import { findStartable, sandboxKindOf, type Unbuilt } from "../templates/template-lookup.ts";
import { parseSteps, refuseTooMany } from "./build-steps.ts";

/** Kept in memory until the build is over, and nowhere else: it may hold credentials. */
export interface BuildPlan {
  from: { template: string } | { image: string; credentials: RegistryCredentials | null } | { builtin: string };
  steps: readonly BuildStep[];
  start: StartCommand | null;
  force: boolean;
}

export function planOf(team: Team, request: StartBuild, stepsMax: number): BuildPlan {
  return {
    from: originOf(request),
    steps: parseSteps(team.id, request.steps ?? [], stepsMax),
    start: startOf(request.startCmd, request.readyCmd),
    force: request.force ?? false,
  };
}

export function planOfDockerfile(
  dockerfile: string,
  commands: { startCmd?: string | null | undefined; readyCmd?: string | null | undefined },
  stepsMax: number,
): BuildPlan {
  const { from, steps, startCommand } = parseDockerfile(dockerfile, process.arch === "arm64" ? "arm64" : "amd64");
  refuseTooMany(steps.length, stepsMax);
  parseImageName(from);
  return {
    from: { image: from, credentials: null },
    steps,
    start: startOf(commands.startCmd || startCommand, commands.readyCmd),
    force: false,
  };
}

/** The uploaded archives that the plan needs, each with the number of its step. */
export function filesOf(plan: BuildPlan): { name: string; step: number }[] {
  return plan.steps.flatMap((step, at) => (step.type === "copy" ? [{ name: step.files, step: at + 1 }] : []));
}

/** The template that replaces an image on this server, if any. */
export type TemplateOf = (image: string) => string | undefined;

/** Fault 404 or 400 when the template does not exist. */
export async function resolveOrigin(
  { store, templateOf, unbuilt }: { store: Store; templateOf: TemplateOf; unbuilt: Unbuilt },
  team: Team | undefined,
  { from }: BuildPlan,
): Promise<BuildOrigin> {
  if ("builtin" in from) return { kind: "builtin", name: from.builtin };
  if (team === undefined) throw new Fault(500, "a build without a team cannot start from a template of a team");
  const template = "image" in from ? templateOf(from.image) : from.template;
  if ("image" in from && template === undefined) {
    return { kind: "registry", image: from.image, credentials: from.credentials };
  }
  const { build } = await findStartable(store, team, template ?? "", unbuilt);
  return { kind: "template", from: sandboxKindOf(build), checkpoint: build.checkpoint, envVars: build.envVars };
}

function originOf({ fromImage, fromTemplate, fromImageRegistry }: StartBuild): BuildPlan["from"] {
  const [image, template] = [fromImage?.trim() || undefined, fromTemplate?.trim() || undefined];
  if ((image === undefined) === (template === undefined)) {
    const both = image === undefined ? "neither fromImage nor fromTemplate" : "both fromImage and fromTemplate";
    throw new Fault(400, `the build has ${both}; give one of them`);
  }
  if (template !== undefined && fromImageRegistry) {
    throw new Fault(400, "fromImageRegistry goes with fromImage; a template needs no credentials");
  }
  if (image === undefined) return { template: template ?? "" };
  parseImageName(image);
  return { image, credentials: fromImageRegistry ? credentialsOf(fromImageRegistry) : null };
}

function credentialsOf(registry: ImageRegistry): RegistryCredentials {
  switch (registry.type) {
    case "registry":
      return { type: "registry", username: registry.username, password: registry.password };
    case "aws":
      return {
        type: "aws",
        accessKeyId: registry.awsAccessKeyId,
        secretAccessKey: registry.awsSecretAccessKey,
        region: registry.awsRegion,
      };
    case "gcp":
      return { type: "gcp", serviceAccountJson: registry.serviceAccountJson };
  }
}

function startOf(command: string | null | undefined, ready: string | null | undefined): StartCommand | null {
  for (const text of [command, ready]) {
    if (text?.includes("\0")) throw new Fault(400, "startCmd and readyCmd must not have a NUL character");
  }
  if (!command && !ready) return null;
  // A ready command alone starts nothing.
  return { command: command || "true", ready: ready || null };
}
