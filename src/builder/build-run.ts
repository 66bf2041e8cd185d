/** Runs one build from its base to its outcome. */
import type { BuildOutcome } from "../contract/internal/host.ts";
import type { Base, BuildJob, Progress } from "./build-job.ts";
import { type BuildCleanup, FinishPhase } from "./finish-phase.ts";
import { originKey } from "./layer-key.ts";
import type { FetchFor } from "./registry/image-fetcher.ts";
import { StepPhase } from "./step-phase.ts";

/** Default user of a new sandbox, unless a step sets another. */
const USER = "user";

export async function runBuild(job: BuildJob): Promise<BuildOutcome> {
  const { images } = job.parts;
  const steps = new StepPhase(job);
  const finish = new FinishPhase(job, steps);
  using holds = new DisposableStack();
  const hold = (image: string) => void holds.use(images.hold(image));
  const base = await findBase(job, hold);
  hold(base.image);
  images.requireStackable(base.image);
  await using undo = new AsyncDisposableStack();
  const { made, image } = await makeImage(job, base, steps, finish, { holds, undo });
  const checkpoint = await finish.proven(job.kind(image, made.context), made, undo);
  finish.remember(base, made, image, checkpoint);
  // The build has succeeded: keep everything.
  undo.move();
  const { user: defaultUser, workdir: defaultWorkdir, envVars } = made.context;
  return { isReady: true, image, defaultUser, defaultWorkdir, envVars, checkpoint };
}

async function findBase(job: BuildJob, hold: FetchFor["hold"]): Promise<Base> {
  const { request, parts, signal } = job;
  const { from, owner, diskSizeMB } = request;
  if (from.kind === "registry" || from.kind === "builtin") {
    const say = (message: string) => job.say("info", message);
    const { image, envVars } =
      from.kind === "registry"
        ? await parts.bases.fetch(from, { signal, say, hold })
        : { image: await parts.builtins.make(from.name, signal, say), envVars: {} };
    // User and working directory are those of every sandbox, whatever the image says.
    const context = { user: USER, home: `/home/${USER}`, workdir: `/home/${USER}`, envVars };
    return { image, disk: undefined, context, key: originKey(owner, [image, context], diskSizeMB) };
  }
  const { image, defaultUser: user, defaultWorkdir: workdir } = from.from;
  const context = { user, home: user === "root" ? "/root" : `/home/${user}`, workdir, envVars: from.envVars };
  const key = originKey(owner, [image, from.checkpoint, context], diskSizeMB);
  if (from.checkpoint === null) return { image, disk: undefined, context, key };
  const { folder } = parts.checkpoints.read(from.checkpoint);
  return { image, disk: { folder }, context, key };
}

async function makeImage(
  job: BuildJob,
  base: Base,
  steps: StepPhase,
  finish: FinishPhase,
  ends: BuildCleanup,
): Promise<{ made: Progress; image: string }> {
  await using used = new AsyncDisposableStack();
  const made = await steps.run(base, used);
  job.at = "finalize";
  return { made, image: await finish.keepImage(base, made, ends) };
}
