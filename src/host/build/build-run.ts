/** One build, from its base to its outcome. */
import { Fault } from "../../contract/fault.ts";
import type { BuildOutcome } from "../host.ts";
import type { Base, BuildJob, Progress } from "./build-job.ts";
import { FinishPhase } from "./finish-phase.ts";
import { originKey } from "./layer-key.ts";
import { StepPhase } from "./step-phase.ts";

export async function runBuild(job: BuildJob): Promise<BuildOutcome> {
  const { images } = job.parts;
  const steps = new StepPhase(job);
  const finish = new FinishPhase(job, (base, layer) => steps.bootOn(base, layer));
  const base = findBase(job);
  using _base = images.hold(base.image);
  images.demandStackable(base.image);
  await using undo = new AsyncDisposableStack();
  const { made, image } = await makeImage(job, base, steps, finish, undo);
  using _image = images.hold(image);
  const checkpoint = await finish.proven(job.kind(image, made.context), made, undo);
  finish.remember(base, made, image, checkpoint);
  // From here on nothing of it is to be taken back.
  undo.move();
  const { user: defaultUser, workdir: defaultWorkdir, envVars } = made.context;
  return { isReady: true, image, defaultUser, defaultWorkdir, envVars, checkpoint };
}

function findBase({ request, parts }: BuildJob): Base {
  const { from, owner, diskSizeMB } = request;
  if (from.kind === "registry") throw new Fault(501, "this server cannot fetch images yet; build from a template");
  const { image, defaultUser: user, defaultWorkdir: workdir } = from.from;
  const context = { user, home: user === "root" ? "/root" : `/home/${user}`, workdir, envVars: from.envVars };
  const key = originKey(owner, [image, from.checkpoint, context], diskSizeMB);
  if (from.checkpoint === null) return { image, disk: undefined, context, key };
  const { folder, manifest } = parts.checkpoints.read(from.checkpoint);
  return { image, disk: { folder, hostname: manifest.hostname }, context, key };
}

async function makeImage(
  job: BuildJob,
  base: Base,
  steps: StepPhase,
  finish: FinishPhase,
  undo: AsyncDisposableStack,
): Promise<{ made: Progress; image: string }> {
  await using used = new AsyncDisposableStack();
  const made = await steps.run(base, used);
  job.at = "finalize";
  return { made, image: await finish.keepImage(base, made, undo) };
}
