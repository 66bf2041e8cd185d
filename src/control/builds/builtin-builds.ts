/**
 * Builds of the templates that come with Sandlot. None is built until somebody asks: the operator ahead, or a create,
 * which is told to come again. Whoever asks while one is under way joins it. A build of the version before serves until
 * one of the new version is ready.
 */
import { Fault } from "../../contract/fault.ts";
import type { Build } from "../../store/builds.ts";
import type { Store } from "../../store/store.ts";
import type { Template } from "../../store/templates.ts";
import type { Clock } from "../../work/clock.ts";
import { OneAtATimeByKey } from "../../work/one-at-a-time.ts";
import type { Ids } from "../access/ids.ts";
import { BUILTIN_RETRY_AFTER_SECONDS, BUILTIN_SAID_MAX_CHARS } from "../limits.ts";
import type { BuiltinDefinition } from "../templates/builtin-definition.ts";
import { TEMPLATE_BUILDING } from "../templates/template-look-up.ts";
import { DEFAULT_TAG } from "../templates/template-reference.ts";
import type { BuildPlan } from "./build-plan.ts";
import type { Builds } from "./builds.ts";

interface BuiltinServices {
  store: Store;
  builds: Builds;
  clock: Clock;
  ids: Ids;
}

/** Of the row: what sandboxes of it start from comes with the server. */
const OWN_GENERATION = 0;
const TEMPLATE_BUILD_FAILED = "template_build_failed";

export class BuiltinBuilds {
  readonly #services: BuiltinServices;
  readonly #definitions: ReadonlyMap<string, BuiltinDefinition>;
  readonly #turns = new OneAtATimeByKey();
  /** By template: the last build that was begun, until somebody who asks was told that it failed. */
  readonly #last = new Map<string, string>();

  constructor(services: BuiltinServices, definitions: readonly BuiltinDefinition[]) {
    this.#services = services;
    this.#definitions = new Map(definitions.map((definition) => [definition.id, definition]));
  }

  /** What is said to one who asks for a template that has no such build; undefined: nobody builds it. */
  async unbuilt({ id }: Template, tag: string): Promise<Fault | undefined> {
    const definition = this.#definitions.get(id);
    if (definition === undefined || (tag !== DEFAULT_TAG && tag !== definition.version())) return undefined;
    return await this.#turns.run(id, async () => {
      const failed = await this.#failed(id);
      if (failed === undefined) return this.#underWay(definition, await this.#begun(definition));
      this.#last.delete(id);
      const said = `template "${definition.name}" could not be built: ${reasonOf(failed)} (build ${failed.id}). `;
      return comeAgain(`${said}The next create tries again`, TEMPLATE_BUILD_FAILED);
    });
  }

  /** Resolves once a build of this version is the default. Fault 422 with the reason when it failed. */
  async build(name: string, report: (line: string) => void): Promise<void> {
    const definition = [...this.#definitions.values()].find((known) => known.name === name);
    if (definition === undefined) throw new Fault(404, `no template ${JSON.stringify(name)} comes with Sandlot`);
    const { store, builds, clock } = this.#services;
    const known = await store.builds.tagged(definition.id, definition.version());
    if (known !== undefined) {
      // After a way back to a version that was built before.
      const current = await store.builds.tagged(definition.id, DEFAULT_TAG);
      if (current?.id === known.id) return;
      await store.transaction(({ builds: rows }) => rows.tag(definition.id, DEFAULT_TAG, known.id, clock.now()));
      return;
    }
    const { id } = await this.#turns.run(definition.id, () => this.#begun(definition));
    using _follower = builds.follow(id, (entries) => {
      for (const { message } of entries) report(message);
    });
    await builds.over(id);
    const over = await store.builds.byId(id);
    if (over?.status === "ready") return;
    this.#last.delete(definition.id);
    throw new Fault(422, `template "${name}" could not be built: ${reasonOf(over)}`);
  }

  /** The one that is under way; begun now, unless somebody has. In its template's turn. */
  async #begun(definition: BuiltinDefinition): Promise<Build> {
    const { store, builds } = this.#services;
    const [building] = await store.builds.unfinished("building", definition.id);
    if (building !== undefined && builds.isUnderWay(building.id)) return building;
    const [waiting] = await store.builds.unfinished("waiting", definition.id);
    const build = waiting ?? (await this.#request(definition));
    await builds.startOwn(build, planOf(definition));
    this.#last.set(definition.id, build.id);
    return build;
  }

  async #request(definition: BuiltinDefinition): Promise<Build> {
    const { store, clock, ids } = this.#services;
    const { cpuCount, memoryMB, diskSizeMB } = definition;
    return await store.transaction(async ({ builds }) => {
      const first = definition.firstBuild();
      const build = await builds.request({
        id: (await builds.byId(first)) === undefined ? first : ids.uuid(),
        templateId: definition.id,
        generation: OWN_GENERATION,
        tags: [DEFAULT_TAG, definition.version()],
        cpuCount,
        memoryMB,
        diskSizeMB,
        createdAt: clock.now(),
      });
      if (build === undefined) throw new Fault(500, `template "${definition.name}" is not in the store`);
      return build;
    });
  }

  /** The last build, if it failed and nobody has been told. */
  async #failed(templateId: string): Promise<Build | undefined> {
    const last = this.#last.get(templateId);
    const build = last === undefined ? undefined : await this.#services.store.builds.byId(last);
    return build?.status === "error" ? build : undefined;
  }

  #underWay({ name }: BuiltinDefinition, { id, createdAt }: Build): Fault {
    const { builds, clock } = this.#services;
    const last = builds.lastWords(id);
    const seconds = Math.max(0, Math.round((clock.now() - createdAt) / 1000));
    const said = last === undefined ? "it has just begun" : `step ${last.step ?? "-"}: ${short(last.message)}`;
    return comeAgain(
      `template "${name}" is being built (build ${id}, ${seconds} s so far; ${said}). Try again in a moment; ` +
        `the operator builds it ahead with \`sandlot templates build ${name}\``,
      TEMPLATE_BUILDING,
    );
  }
}

function planOf({ name, start }: BuiltinDefinition): BuildPlan {
  return { from: { builtin: name }, steps: [], start, force: false };
}

function comeAgain(message: string, errorCode: string): Fault {
  return new Fault(503, message, { errorCode, headers: { "Retry-After": String(BUILTIN_RETRY_AFTER_SECONDS) } });
}

function reasonOf(build: Build | undefined): string {
  return build?.reason?.message ?? "its build is gone";
}

function short(message: string): string {
  const [line = ""] = message.split("\n");
  return line.length > BUILTIN_SAID_MAX_CHARS ? `${line.slice(0, BUILTIN_SAID_MAX_CHARS)}…` : line;
}
