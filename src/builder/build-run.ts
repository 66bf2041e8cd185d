/** Runs one build from its base to its outcome. */
import type { BuildOutcome } from "../contract/internal/host.ts";
import type { Base, BuildJob, Progress } from "./build-job.ts";
import { type Ends, FinishPhase } from "./finish-phase.ts";
import { originKey } from "./layer-key.ts";
import type { FetchFor, FetchRequest } from "./registry/image-fetcher.ts";
import { StepPhase } from "./step-phase.ts";

/** Default user of a new sandbox, unless a step sets another. */
const USER = "user";

export async function runBuild(job: BuildJob): Promise<BuildOutcome> {
  const { images } = job.parts;
  const steps = new StepPhase(job);
  const finish = new FinishPhase(job, (base, layer) => steps.bootOn(base, layer));
  using holds = new DisposableStack();
  const hold = (image: string) => void holds.use(images.hold(image));
  const base = await findBase(job, hold);
  hold(base.image);
  images.demandStackable(base.image);
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
  const { request, parts } = job;
  const { from, owner, diskSizeMB } = request;
  if (from.kind === "registry") return await fetchBase(job, from, hold);
  if (from.kind === "builtin") return await makeBase(job, from.name);
  const { image, defaultUser: user, defaultWorkdir: workdir } = from.from;
  const context = { user, home: user === "root" ? "/root" : `/home/${user}`, workdir, envVars: from.envVars };
  const key = originKey(owner, [image, from.checkpoint, context], diskSizeMB);
  if (from.checkpoint === null) return { image, disk: undefined, context, key };
  const { folder } = parts.checkpoints.read(from.checkpoint);
  return { image, disk: { folder }, context, key };
}

/** User and working directory are those of every sandbox, whatever the image says. */
async function fetchBase(job: BuildJob, from: FetchRequest, hold: FetchFor["hold"]): Promise<Base> {
  const { request, parts, signal } = job;
  const { image, envVars } = await parts.bases.fetch(from, {
    signal,
    say: (message) => job.say("info", message),
    hold,
  });
  const context = { user: USER, home: `/home/${USER}`, workdir: `/home/${USER}`, envVars };
  return { image, disk: undefined, context, key: originKey(request.owner, [image, context], request.diskSizeMB) };
}

async function makeBase(job: BuildJob, name: string): Promise<Base> {
  const { request, parts, signal } = job;
  const image = await parts.builtins.make(name, signal, (message) => job.say("info", message));
  const context = { user: USER, home: `/home/${USER}`, workdir: `/home/${USER}`, envVars: {} };
  return { image, disk: undefined, context, key: originKey(request.owner, [image, context], request.diskSizeMB) };
}

async function makeImage(
  job: BuildJob,
  base: Base,
  steps: StepPhase,
  finish: FinishPhase,
  ends: Ends,
): Promise<{ made: Progress; image: string }> {
  await using used = new AsyncDisposableStack();
  const made = await steps.run(base, used);
  job.at = "finalize";
  return { made, image: await finish.keepImage(base, made, ends) };
}
