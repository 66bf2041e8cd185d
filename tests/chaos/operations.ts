/** The operations that a scenario interrupts, and their steps as visible from outside. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { freezerOf } from "../../src/system/cgroup/freezer.ts";
import { isWaitingCriu } from "../support/waiting-criu.ts";
import { type Answer, namesIn, type Stage } from "./stage.ts";
import type { Victim } from "./victims.ts";

export interface Operation {
  name: string;
  /** The state of the sandbox at the start. */
  from: "running" | "paused";
  begin(stage: Stage, id: string): Promise<Answer | undefined>;
  /** The steps in their order. */
  steps: readonly Step[];
  victims: readonly Victim[];
}

interface Step {
  name: string;
  /** Whether it has come to this. */
  isSeen(watch: OperationWatch): boolean;
  /** No process of the sandbox runs any more. */
  isWithoutProcesses?: boolean;
}

/** The state before an operation, to tell apart what the operation makes. */
export class OperationWatch {
  readonly #runFolders: ReadonlySet<string>;
  readonly #checkpoints: ReadonlySet<string>;
  readonly #interfaces: ReadonlySet<string>;

  constructor(
    readonly stage: Stage,
    readonly id: string,
  ) {
    this.#runFolders = new Set(namesIn(stage.runFolders));
    this.#checkpoints = new Set(namesIn(stage.checkpoints));
    this.#interfaces = new Set(stage.interfaces());
  }

  /** Whether the run folder of the sandbox being made has this file. */
  made(file: string): boolean {
    const fresh = namesIn(this.stage.runFolders).filter((name) => !this.#runFolders.has(name));
    return fresh.some((name) => existsSync(join(this.stage.runFolders, name, file)));
  }

  /** A file of the checkpoint that is being written. */
  drafted(file: string | RegExp): boolean {
    const drafts = namesIn(this.stage.checkpoints).filter(
      (name) => name.startsWith(".") && !this.#checkpoints.has(name),
    );
    return drafts.some((name) => {
      const folder = join(this.stage.checkpoints, name);
      if (typeof file === "string") return existsSync(join(folder, file));
      return namesIn(join(folder, "memory")).some((each) => file.test(each));
    });
  }

  named(): boolean {
    return namesIn(this.stage.checkpoints).some((name) => !name.startsWith(".") && !this.#checkpoints.has(name));
  }

  discarded(): boolean {
    const now = new Set(namesIn(this.stage.checkpoints));
    return [...this.#checkpoints].some((name) => !now.has(name));
  }

  frozen(): boolean {
    const folder = freezerOf(`/sandlot/${this.stage.tag}/${this.id}`);
    try {
      return existsSync(join(folder, "freezer.state"))
        ? readFileSync(join(folder, "freezer.state"), "utf8") !== "THAWED\n"
        : readFileSync(join(folder, "cgroup.freeze"), "utf8").trim() === "1";
    } catch {
      return false;
    }
  }

  working(action: "dump" | "restore"): boolean {
    const ofAction = this.stage.cgroups().filter((name) => name.endsWith(`.${action}`));
    return ofAction
      .flatMap((name) => this.stage.processesIn(name))
      .some((pid) => action === "restore" || !isWaitingCriu(pid));
  }

  plugged(): boolean {
    return this.stage.interfaces().some((name) => !this.#interfaces.has(name));
  }

  gone(): boolean {
    return !existsSync(join(this.stage.runFolders, this.id));
  }

  dead(): boolean {
    return this.stage.processesIn(this.id).length === 0;
  }
}

const request: Step = { name: "asked for", isSeen: () => true };
const DUMP: readonly Step[] = [
  { name: "checkpoint begun", isSeen: (watch) => watch.drafted("own") },
  { name: "CRIU started", isSeen: (watch) => watch.working("dump") },
  { name: "CRIU found the processes", isSeen: (watch) => watch.drafted(/^seccomp|^pstree|^core-/) },
  { name: "CRIU writes pages", isSeen: (watch) => watch.drafted(/^pages-/) },
  { name: "sandbox frozen", isSeen: (watch) => watch.frozen() },
  { name: "disk cloned", isSeen: (watch) => watch.drafted("disk.img") },
  { name: "manifest written", isSeen: (watch) => watch.drafted("manifest.json") },
  { name: "checkpoint named", isSeen: (watch) => watch.named() },
];
const RESTORE: readonly Step[] = [
  { name: "run folder made", isSeen: (watch) => watch.made("") },
  { name: "CRIU reads", isSeen: (watch) => watch.made("restore.log") },
  { name: "disk mounted", isSeen: (watch) => watch.made("root") },
  { name: "CRIU in its cgroup", isSeen: (watch) => watch.working("restore") },
  { name: "plugged in", isSeen: (watch) => watch.plugged() },
  { name: "recorded", isSeen: (watch) => watch.made("record.json") },
  { name: "handed over", isSeen: (watch) => watch.made("settings.json") },
];
const BOOT: readonly Step[] = [
  { name: "run folder made", isSeen: (watch) => watch.made("") },
  { name: "disk mounted", isSeen: (watch) => watch.made("root") },
  { name: "bundle written", isSeen: (watch) => watch.made("config.json") },
  { name: "created", isSeen: (watch) => watch.made("pid") },
  { name: "recorded", isSeen: (watch) => watch.made("record.json") },
  { name: "handed over", isSeen: (watch) => watch.made("settings.json") },
];

export const LONG_SECONDS = 3_600;

export const OPERATIONS: readonly Operation[] = [
  {
    name: "create",
    from: "running",
    begin: (stage) => stage.ask("POST", "/sandboxes", { templateID: "base", timeout: LONG_SECONDS }),
    steps: [request, ...BOOT],
    victims: ["server", "crun", "guest", "runsc"],
  },
  {
    name: "pause",
    from: "running",
    begin: (stage, id) => stage.ask("POST", `/sandboxes/${id}/pause`, {}),
    steps: [
      request,
      ...DUMP,
      { name: "processes ended", isSeen: (watch) => watch.dead(), isWithoutProcesses: true },
      { name: "run folder removed", isSeen: (watch) => watch.gone(), isWithoutProcesses: true },
    ],
    victims: ["server", "crun", "criu", "guest", "runsc"],
  },
  {
    name: "resume",
    from: "paused",
    begin: (stage, id) => stage.ask("POST", `/sandboxes/${id}/resume`, { timeout: LONG_SECONDS }),
    steps: [request, ...RESTORE, { name: "checkpoint removed", isSeen: (watch) => watch.discarded() }],
    victims: ["server", "criu", "guest", "runsc"],
  },
  {
    name: "fork",
    from: "running",
    begin: (stage, id) => stage.ask("POST", `/sandboxes/${id}/fork`, { count: 2, timeout: LONG_SECONDS }),
    steps: [request, ...DUMP, ...RESTORE.map((step) => ({ ...step, name: `a copy's ${step.name}` }))],
    victims: ["server", "criu", "guest", "runsc"],
  },
  {
    name: "snapshot",
    from: "running",
    begin: (stage, id) => stage.ask("POST", `/sandboxes/${id}/snapshots`, {}),
    steps: [request, ...DUMP],
    victims: ["server", "criu", "guest", "runsc"],
  },
  {
    name: "kill",
    from: "running",
    begin: (stage, id) => stage.ask("DELETE", `/sandboxes/${id}`),
    steps: [
      request,
      { name: "processes ended", isSeen: (watch) => watch.dead(), isWithoutProcesses: true },
      { name: "run folder removed", isSeen: (watch) => watch.gone(), isWithoutProcesses: true },
    ],
    victims: ["server", "crun", "guest", "runsc"],
  },
  {
    name: "kill of a paused one",
    from: "paused",
    begin: (stage, id) => stage.ask("DELETE", `/sandboxes/${id}`),
    steps: [request, { name: "checkpoint removed", isSeen: (watch) => watch.discarded() }],
    victims: ["server"],
  },
];
