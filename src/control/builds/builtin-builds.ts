/**
 * Builds of the built-in templates. A template is built on demand: ahead by the operator, or by a create, whose client
 * gets a Retry-After. Requests during a build join it. A build of the previous version serves until the new version is
 * ready.
 */
import type { Timer } from "../../base/clock.ts";
import { KeyedQueue } from "../../base/serial-queue.ts";
import { Fault } from "../../contract/fault.ts";
import type { Build } from "../../store/builds.ts";
import type { Tables } from "../../store/store.ts";
import type { Template } from "../../store/templates.ts";
import type { Parts } from "../parts.ts";
import type { BuiltinDefinition } from "../templates/builtin-definition.ts";
import { TEMPLATE_BUILDING } from "../templates/template-lookup.ts";
import { DEFAULT_TAG } from "../templates/template-reference.ts";
import type { BuildPlan } from "./build-plan.ts";
import type { Builds } from "./builds.ts";

/** Interval between looks for builds that the operator requested through the store. */
const BUILTIN_CHECK_MS = 2_000;
/** Retry-After for creates from a template that is being built. */
const BUILTIN_RETRY_AFTER_SECONDS = 5;
/** Maximum length of the build's last log line in the response. */
const BUILTIN_SAID_MAX_CHARS = 200;

interface BuiltinServices extends Parts {
  builds: Builds;
}

/** Marks a row whose template comes with the server. */
const OWN_GENERATION = 0;

const ABANDONED = "the server was restarted and did not continue it";
const OTHER_VERSION =
  "the server that runs has another version of this template; start the server again, then ask for the build";
const TEMPLATE_BUILD_FAILED = "template_build_failed";

export class BuiltinBuilds {
  readonly #definitions: ReadonlyMap<string, BuiltinDefinition>;
  readonly #turns = new KeyedQueue();
  /** Per template: the last build that began, until its failure has been reported to a caller. */
  readonly #last = new Map<string, string>();
  #timer: Timer | undefined;

  constructor(
    private readonly services: BuiltinServices,
    definitions: readonly BuiltinDefinition[],
  ) {
    this.#definitions = new Map(definitions.map((definition) => [definition.id, definition]));
  }

  /** From now on it also begins builds that the operator requested through the store. */
  start(): void {
    const { background, idleClock } = this.services;
    background.run("builds that the operator asked for were not begun", () => this.#beginWaiting());
    this.#timer = idleClock.after(BUILTIN_CHECK_MS, () => this.start());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** The fault for a caller that needs a build which does not exist yet; undefined: this class does not build it. */
  async unbuilt({ id }: Template, tag: string): Promise<Fault | undefined> {
    const definition = this.#definitions.get(id);
    if (definition === undefined || (tag !== DEFAULT_TAG && tag !== definition.version())) return undefined;
    return await this.#turns.run(id, async () => {
      const failed = await this.#failed(id);
      if (failed === undefined) return this.#underWay(definition, await this.#begun(definition));
      this.#last.delete(id);
      const message = `template "${definition.name}" could not be built: ${reasonOf(failed)} (build ${failed.id}). `;
      return retryLater(`${message}The next create tries again`, TEMPLATE_BUILD_FAILED);
    });
  }

  /** Resolves once a build of this version is the default. Fault 422 with the reason when the build failed. */
  async build(name: string, report: (line: string) => void): Promise<void> {
    const definition = [...this.#definitions.values()].find((known) => known.name === name);
    if (definition === undefined) throw new Fault(404, `no template ${JSON.stringify(name)} comes with Sandlot`);
    const { store, builds } = this.services;
    const { id, status } = await this.#turns.run(definition.id, () => this.#begun(definition));
    if (status === "ready") return;
    using _follower = builds.follow(id, (entries) => {
      for (const { message } of entries) report(message);
    });
    await builds.over(id);
    const over = await store.builds.byId(id);
    if (over?.status === "ready") return;
    this.#last.delete(definition.id);
    throw new Fault(422, `template "${name}" could not be built: ${reasonOf(over)}`);
  }

  /** The build that is ready or in progress; starts one if there is none. Call it in the template's turn. */
  async #begun(definition: BuiltinDefinition): Promise<Build> {
    const { store, builds, clock } = this.services;
    let build = await builtinBuild(this.services, definition);
    if (build?.status === "building" && !builds.isUnderWay(build.id)) {
      await store.builds.fail(build.id, { message: ABANDONED, step: null }, clock.now());
      build = await builtinBuild(this.services, definition);
    }
    if (build === undefined) throw new Fault(500, `template "${definition.name}" is not in the store`);
    if (build.status !== "waiting") return build;
    await builds.startOwn(build, planOf(definition));
    this.#last.set(definition.id, build.id);
    return build;
  }

  /** Begins builds that were requested through the store. */
  async #beginWaiting(): Promise<void> {
    const { store, clock } = this.services;
    for (const { id, templateId, tags } of await store.builds.waitingOfNoTeam()) {
      const definition = this.#definitions.get(templateId);
      if (definition !== undefined && tags.includes(definition.version())) {
        await this.#turns.run(templateId, () => this.#begun(definition));
      } else await store.builds.fail(id, { message: OTHER_VERSION, step: null }, clock.now());
    }
  }

  /** The last build, if it failed and no caller has got its error. */
  async #failed(templateId: string): Promise<Build | undefined> {
    const last = this.#last.get(templateId);
    const build = last === undefined ? undefined : await this.services.store.builds.byId(last);
    return build?.status === "error" ? build : undefined;
  }

  #underWay({ name }: BuiltinDefinition, { id, createdAt }: Build): Fault {
    const { builds, clock } = this.services;
    const last = builds.lastLogEntry(id);
    const seconds = Math.max(0, Math.round((clock.now() - createdAt) / 1000));
    const progress = last === undefined ? "it has just begun" : `step ${last.step ?? "-"}: ${short(last.message)}`;
    return retryLater(
      `template "${name}" is being built (build ${id}, ${seconds} s so far; ${progress}). Try again in a moment; ` +
        `the operator builds it ahead with \`sandlot templates build ${name}\``,
      TEMPLATE_BUILDING,
    );
  }
}

function planOf({ name, start }: BuiltinDefinition): BuildPlan {
  return { from: { builtin: name }, steps: [], start, force: false };
}

function retryLater(message: string, errorCode: string): Fault {
  return new Fault(503, message, { errorCode, retryAfterSeconds: BUILTIN_RETRY_AFTER_SECONDS });
}

function reasonOf(build: Build | undefined): string {
  return build?.reason?.message ?? "its build is gone";
}

function short(message: string): string {
  const [line = ""] = message.split("\n");
  return line.length > BUILTIN_SAID_MAX_CHARS ? `${line.slice(0, BUILTIN_SAID_MAX_CHARS)}…` : line;
}

/**
 * The build of this version: a ready one, which becomes the default; else one in progress; else a new one, which waits
 * for the server. The server polls the store, so other processes can request one too. Undefined: no server has had this
 * template yet.
 */
export async function builtinBuild(
  services: Pick<Parts, "store" | "clock" | "ids">,
  definition: BuiltinDefinition,
): Promise<Build | undefined> {
  const { store, clock, ids } = services;
  const version = definition.version();
  return await store.transaction(async ({ builds }) => {
    const known = await builds.tagged(definition.id, version);
    if (known !== undefined) {
      // After a downgrade to a version built before, the default is still another build.
      const current = await builds.tagged(definition.id, DEFAULT_TAG);
      if (current?.id !== known.id) await builds.tag(definition.id, DEFAULT_TAG, known.id, clock.now());
      return known;
    }
    const underWay = await unfinished(builds, definition.id, version);
    if (underWay !== undefined) return underWay;
    const first = definition.firstBuild();
    return await builds.request({
      id: (await builds.byId(first)) === undefined ? first : ids.uuid(),
      templateId: definition.id,
      generation: OWN_GENERATION,
      tags: [DEFAULT_TAG, version],
      cpuCount: definition.cpuCount,
      memoryMB: definition.memoryMB,
      diskSizeMB: definition.diskSizeMB,
      createdAt: clock.now(),
    });
  });
}

async function unfinished(builds: Tables["builds"], id: string, version: string): Promise<Build | undefined> {
  const found = [...(await builds.unfinished("building", id)), ...(await builds.unfinished("waiting", id))];
  return found.find(({ tags }) => tags.includes(version));
}
