/** Runs the steps of a build in one sandbox, from the deepest cached layer on, and caches further layers. */
import type { BuildStep } from "../contract/internal/host.ts";
import { withVariables } from "./build-context.ts";
import type { Base, BuildJob, Progress } from "./build-job.ts";
import type { BuildSandbox } from "./build-sandbox.ts";
import { stepKey } from "./layer-key.ts";
import type { Layer } from "./layers.ts";
import { stepLine } from "./step-line.ts";
import { isDiskStep, runStep } from "./steps.ts";

export class StepPhase {
  constructor(private readonly job: BuildJob) {}

  /** Resources needed until the image is written go into `used`. */
  async run(base: Base, used: AsyncDisposableStack): Promise<Progress> {
    const { steps } = this.job.request;
    const keys: string[] = [];
    for (const step of steps) keys.push(stepKey(keys.at(-1) ?? base.key, step));
    const layer = this.#deepestLayer(keys);
    const done = layer === undefined ? 0 : keys.indexOf(layer.key) + 1;
    for (const [at, step] of steps.slice(0, done).entries()) this.#announce(at, step, "CACHED ");
    const begun: Progress = {
      context: layer?.context ?? base.context,
      key: layer?.key ?? base.key,
      diskKey: layer?.key,
      sandbox: undefined,
    };
    const rest = steps.slice(done).map((step, at) => ({ step, at: done + at, key: keys[done + at] ?? "" }));
    if (layer !== undefined) used.use(this.job.parts.layers.keep(layer.key));
    if (!rest.some(({ step }) => isDiskStep(step))) return await this.#runAll(rest, begun);
    const sandbox = used.use(await this.bootOn(base, layer?.key));
    const home = layer === undefined ? await sandbox.homeOf(begun.context.user) : undefined;
    if (home !== undefined) begun.context = { ...begun.context, home };
    return await this.#runAll(rest, { ...begun, sandbox });
  }

  /** Boots on the layer with this key, or on the base without one. */
  async bootOn(base: Base, layer: string | undefined): Promise<BuildSandbox> {
    const kind = { ...this.job.kind(base.image, base.context), defaultUser: "root", defaultWorkdir: "/" };
    const request = { kind, envVars: {}, egress: this.job.egress };
    const boot = (disk: Base["disk"]) =>
      this.job.start({ ...request, origin: disk && { disk: disk.folder, copy: false } });
    return layer === undefined ? await boot(base.disk) : await this.job.parts.layers.hold(layer, boot);
  }

  /** The deepest cached layer before the first forced step. */
  #deepestLayer(keys: readonly string[]): Layer | undefined {
    const { steps, force } = this.job.request;
    const forced = steps.findIndex((step) => step.force);
    const usable = force ? [] : keys.slice(0, forced < 0 ? keys.length : forced);
    for (const key of usable.toReversed()) {
      const layer = this.job.parts.layers.find(key);
      if (layer !== undefined) return layer;
    }
    return undefined;
  }

  async #runAll(steps: readonly { step: BuildStep; at: number; key: string }[], begun: Progress): Promise<Progress> {
    const { files, layers } = this.job.parts;
    const { sandbox } = begun;
    let { context, diskKey } = begun;
    const lastOfDisk = steps.findLast(({ step }) => isDiskStep(step));
    for (const { step, at, key } of steps) {
      this.job.signal.throwIfAborted();
      this.#announce(at, step, "");
      if (!isDiskStep(step) || sandbox === undefined) {
        if (!isDiskStep(step)) context = withVariables(context, step.variables);
        continue;
      }
      context = await runStep(step, context, { sandbox, files, output: this.job.log.output(this.job.at) });
      // Repeating a user or workdir step is faster than writing a layer.
      if (step.type !== "run" && step.type !== "copy" && step !== lastOfDisk?.step) continue;
      await layers.write(sandbox.record, key, { context, owner: this.job.request.owner, before: diskKey });
      diskKey = key;
    }
    return { context, key: steps.at(-1)?.key ?? begun.key, diskKey, sandbox };
  }

  #announce(at: number, step: BuildStep, prefix: string): void {
    this.job.at = String(at + 1);
    this.job.say("info", `[${at + 1}/${this.job.request.steps.length}] ${prefix}${stepLine(step)}`);
  }
}
