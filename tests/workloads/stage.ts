/** One sandbox on the real machine, used through the unmodified SDK, and paused and resumed under a running program. */
import { expect } from "bun:test";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import type { CreateSandbox } from "../../src/contract/internal/host.ts";
import { RUNTIME_PORT } from "../../src/contract/runtime/version.ts";
import type { Machine } from "../../src/host/machine.ts";
import { census, settledCensus } from "../support/census.ts";
import { Conversation } from "./conversation.ts";
import type { Workload } from "./workload.ts";

const NOTHING_KEPT = { namespaces: 0, cgroups: 0 };

export class Stage {
  readonly #conversations: Conversation[] = [];
  /** Of a workload that shares its pause with others: resolves after it. */
  #join: (() => Promise<void>) | undefined;

  private constructor(
    readonly machine: Machine,
    readonly dataFolder: string,
    readonly request: CreateSandbox,
    readonly id: string,
    public sandbox: Sandbox,
  ) {}

  static async open(machine: Machine, dataFolder: string, request: CreateSandbox): Promise<Stage> {
    const { id } = await machine.create(request);
    return new Stage(machine, dataFolder, request, id, await clientOf(machine, id));
  }

  /** Another sandbox that begins as this one is now; to be closed as well. */
  async copy(): Promise<Stage> {
    const checkpoint = `copy-${crypto.randomUUID()}`;
    await this.machine.snapshot(this.id, checkpoint, { memory: true });
    const { id } = await this.machine.create({ ...this.request, checkpoint });
    await this.machine.removeCheckpoint(checkpoint);
    return new Stage(this.machine, this.dataFolder, this.request, id, await clientOf(this.machine, id));
  }

  /** The address at which the machine reaches it. */
  get address(): string {
    return addressOf(this.machine, this.id);
  }

  /** The output of a command that ends by itself. */
  async run(command: string): Promise<string> {
    return (await this.sandbox.commands.run(command, { timeoutMs: 180_000 })).stdout.trim();
  }

  async command(command: string): Promise<Conversation> {
    return this.#remember(await Conversation.withCommand(this.sandbox, command));
  }

  async process(pid: number): Promise<Conversation> {
    return this.#remember(await Conversation.withProcess(this.sandbox, pid));
  }

  async terminal(): Promise<Conversation> {
    return this.#remember(await Conversation.withTerminal(this.sandbox));
  }

  /** A Python program that answers lines, written to a file as agents do. */
  async python(program: string): Promise<Conversation> {
    const path = `/tmp/${crypto.randomUUID()}.py`;
    await this.sandbox.files.write(path, program);
    return await this.command(`exec python3 -u ${path}`);
  }

  /**
   * Plays all in this sandbox with one pause: one after the other up to its pause, and the rest of all afterwards.
   * Returns the error of each workload that failed.
   */
  async playTogether(workloads: readonly Workload[]): Promise<Map<Workload, unknown>> {
    const resumed = Promise.withResolvers<void>();
    const failures = new Map<Workload, unknown>();
    const plays: Promise<void>[] = [];
    for (const workload of workloads) {
      const come = Promise.withResolvers<void>();
      this.#join = () => {
        come.resolve();
        return resumed.promise;
      };
      const play = workload.play(this).catch((error: unknown) => void failures.set(workload, error));
      plays.push(play);
      await Promise.race([come.promise, play]);
    }
    this.#join = undefined;
    await this.pauseAndResume().then(resumed.resolve, resumed.reject);
    await Promise.all(plays);
    return failures;
  }

  /** With SANDLOT_TEST_LONG=1 twice. All conversations go on afterwards. */
  async pauseAndResume(whilePaused?: () => Promise<void>): Promise<void> {
    if (this.#join !== undefined) return await this.#join();
    await this.#pauseAndResumeOnce(whilePaused);
    if (LONG) await this.#pauseAndResumeOnce();
    await this.#reconnect();
  }

  /** A restored sandbox can be checkpointed again. */
  async pauseAndResumeTwice(): Promise<void> {
    await this.#pauseAndResumeOnce();
    await this.#pauseAndResumeOnce();
    await this.#reconnect();
  }

  async #reconnect(): Promise<void> {
    this.sandbox = await clientOf(this.machine, this.id);
    for (const conversation of this.#conversations) await conversation.reconnect(this.sandbox);
  }

  /** While the sandbox is paused, nothing runs and nothing is kept in memory. */
  async #pauseAndResumeOnce(whilePaused: () => Promise<void> = async () => undefined): Promise<void> {
    const checkpoint = `workload-${crypto.randomUUID()}`;
    await this.machine.pause(this.id, checkpoint, { memory: true });
    expect(await census(this.dataFolder)).toMatchObject({ processes: 0, namespaces: 0 });
    expect(await settledCensus(this.dataFolder, NOTHING_KEPT)).toMatchObject(NOTHING_KEPT);
    await whilePaused();
    await this.machine.resume({ ...this.request, id: this.id, checkpoint, memory: true });
    await this.machine.removeCheckpoint(checkpoint);
  }

  /** The message of a pause that is rejected. The sandbox goes on and there is no checkpoint. */
  async refusedPause(): Promise<string> {
    const refused = this.machine.pause(this.id, "refused", { memory: true });
    const fault = await refused.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(fault).toMatchObject({ status: 422 });
    expect(await this.machine.parts.checkpoints.list()).not.toContain("refused");
    return (fault as Error).message;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.machine.destroy(this.id);
  }

  #remember(conversation: Conversation): Conversation {
    this.#conversations.push(conversation);
    return conversation;
  }
}

function addressOf(machine: Machine, id: string): string {
  const address = machine.addressOf(id);
  if (address === undefined) throw new Error(`sandbox ${id} does not run`);
  return address;
}

/** In debug mode the SDK asks no management server and sends no token. */
async function clientOf(machine: Machine, id: string): Promise<Sandbox> {
  return await Sandbox.connect("debug", {
    debug: true,
    sandboxUrl: `http://${addressOf(machine, id)}:${RUNTIME_PORT}`,
  });
}
