/**
 * What the storm is judged by: a second, much simpler telling of a sandbox's life. It hears every change of a row from
 * the store and every act from the host, holds both against its own idea of the state, and afterwards every answer
 * against the states that the sandbox was in during the call.
 */
import type { Sandbox, SandboxState } from "../../store/sandboxes.ts";
import type { Store, Tables } from "../../store/store.ts";

/** What a call may find, in the words of the documents. */
type Found = "running" | "paused" | "between" | "over" | "gone";

interface Moment {
  seq: number;
  /** Undefined: there is no row. */
  row: Sandbox | undefined;
  /** The change that led here. */
  change: string;
}

export interface CallRecord {
  op: string;
  id: string;
  status: number;
  /** The `state` of a read. */
  shown?: string | undefined;
  from: { seq: number; at: number };
  to: { seq: number; at: number };
}

/** What a run whose rules have just changed may have come to. */
const NOT_KILLING: readonly SandboxState[] = ["running", "snapshotting", "pausing", "paused"];

/** From which states each change may come, and where it may lead. A request to kill turns every end into `killing`. */
const CHANGES: Readonly<Record<string, { from: readonly SandboxState[]; to: readonly SandboxState[] }>> = {
  endRunning: { from: ["running"], to: ["killing"] },
  killRunning: { from: ["running"], to: ["killing"] },
  takeDue: { from: ["running"], to: ["pausing", "killing"] },
  beginPause: { from: ["running"], to: ["pausing"] },
  finishPause: { from: ["pausing"], to: ["paused", "killing"] },
  abandonPause: { from: ["pausing"], to: ["running", "killing"] },
  putOffPause: { from: ["pausing"], to: ["running", "killing"] },
  beginResume: { from: ["paused"], to: ["resuming"] },
  finishResume: { from: ["resuming"], to: ["running", "killing"] },
  abandonResume: { from: ["resuming"], to: ["paused", "killing"] },
  beginSnapshot: { from: ["running"], to: ["snapshotting"] },
  finishSnapshot: { from: ["snapshotting"], to: ["running", "killing"] },
  setEnd: { from: ["running"], to: ["running"] },
  extendEnd: { from: ["running"], to: ["running"] },
  beginEgress: { from: ["running"], to: ["running"] },
  finishEgress: { from: NOT_KILLING, to: NOT_KILLING },
};

/** What a state must be while the host acts on a sandbox. */
const ACTS: Readonly<Record<string, SandboxState>> = {
  pause: "pausing",
  resume: "resuming",
  snapshot: "snapshotting",
  destroy: "killing",
};

/** Statuses that the documents allow for what a call found. */
const ALLOWED: Readonly<Record<string, Readonly<Record<Found, readonly number[]>>>> = {
  read: { running: [200], paused: [200], between: [200], over: [404], gone: [404] },
  kill: { running: [204], paused: [204], between: [204], over: [204], gone: [404] },
  pause: { running: [204], paused: [409], between: [503], over: [404], gone: [404] },
  // 201 between two states: it joined a start that was under way; that there was one is looked at apart.
  resume: { running: [409], paused: [201], between: [201, 409], over: [404, 409], gone: [404] },
  connect: { running: [200], paused: [201], between: [201, 409], over: [409], gone: [404] },
  // With timeout 0. What it would delete, it may not resume; that is looked at apart.
  "brief connect": { running: [200], paused: [201], between: [201, 409], over: [409], gone: [404] },
  timeout: { running: [204], paused: [404], between: [409], over: [409], gone: [404] },
  refresh: { running: [204], paused: [404], between: [409], over: [409], gone: [404] },
  network: { running: [204], paused: [409], between: [409], over: [404], gone: [404] },
  fork: { running: [201], paused: [409], between: [409], over: [404], gone: [404] },
  snapshot: { running: [201], paused: [404], between: [409], over: [404], gone: [404] },
  // 200: there is a way; 502, 409: as the edge would say it.
  wake: { running: [200], paused: [200, 502], between: [409, 502], over: [409, 502], gone: [502] },
};

/** Besides these, which the host's failures explain. */
const FAILURES: readonly number[] = [422, 500, 503];

export class StormModel {
  readonly #lives = new Map<string, Moment[]>();
  /** When the host was made to fail, and for which sandbox; `*` when it cannot be said. */
  readonly #failures: { seq: number; id: string }[] = [];
  /** When runs were lost, by their execution ids. */
  readonly #losses = new Map<string, number>();
  readonly faults: string[] = [];
  seq = 0;

  /** Listens at the store. `unsettle` is awaited around each statement, so that others come between. */
  listenTo(store: Store, unsettle: () => Promise<void>): void {
    const { sandboxes, egressChanges, transaction } = store;
    const listen = (table: object, method: string, change = method) => {
      const original = Reflect.get(table, method) as (...given: unknown[]) => Promise<Sandbox | Sandbox[] | undefined>;
      Reflect.set(table, method, async (...given: unknown[]) => {
        await unsettle();
        const answer = await original(...given);
        for (const row of [answer ?? []].flat()) this.changed(change, row);
        await unsettle();
        return answer;
      });
    };
    for (const change of [...Object.keys(CHANGES), "kill"]) if (!change.endsWith("Egress")) listen(sandboxes, change);
    listen(egressChanges, "begin", "beginEgress");
    listen(egressChanges, "finish", "finishEgress");
    const { remove } = sandboxes;
    sandboxes.remove = async (run) => {
      await remove(run);
      this.removed(run.id);
    };
    store.transaction = (work, outlasts) =>
      transaction((tables: Tables) => {
        const add = async (row: Sandbox) => {
          await tables.sandboxes.add(row);
          this.#note(row.id, row, "add");
        };
        return work({ ...tables, sandboxes: { ...tables.sandboxes, add } });
      }, outlasts);
  }

  /** Somebody says to have won a change of this row. */
  changed(change: string, row: Sandbox): void {
    const before = this.#row(row.id);
    const where = `${change} of ${row.id} → ${row.state}`;
    if (before === undefined) this.faults.push(`${where}: there is no such sandbox`);
    else if (change === "kill") this.#judgeKill(before, row, where);
    else {
      const rule = CHANGES[change];
      if (!rule?.from.includes(before.state)) this.faults.push(`${where}: it was ${before.state}`);
      if (!rule?.to.includes(row.state)) this.faults.push(`${where}: it may not lead there`);
      const wanted = before.killWanted && !change.startsWith("begin") && !/(?:End|Egress)$/.test(change);
      if (wanted && row.state !== "killing") this.faults.push(`${where}: somebody wanted it killed`);
      const newRun = change === "beginResume";
      if (change === "finishEgress" && row.state !== before.state) this.faults.push(`${where}: it was ${before.state}`);
      if ((before.executionId === row.executionId) === newRun) this.faults.push(`${where}: it was another run`);
    }
    this.#note(row.id, row, change);
  }

  removed(id: string): void {
    const before = this.#row(id);
    if (before !== undefined && before.state !== "killing") this.faults.push(`${id} removed while ${before.state}`);
    if (before !== undefined) this.#note(id, undefined, "remove");
  }

  /** The host is told to do something to a sandbox that has a row. */
  acted(act: keyof typeof ACTS, id: string, checkpoint?: string): void {
    const row = this.#row(id);
    if (row === undefined) return;
    if (row.state !== ACTS[act]) this.faults.push(`${act} of ${id} while it was ${row.state}`);
    if (checkpoint !== undefined && act !== "snapshot" && row.checkpoint !== checkpoint) {
      this.faults.push(`${act} of ${id} with ${checkpoint}, not ${row.checkpoint}`);
    }
  }

  /** A sandbox has died. Until its row says so, it is both what the row says and gone. */
  lost(id: string): void {
    const executionId = this.#row(id)?.executionId;
    if (executionId !== undefined) this.#losses.set(executionId, ++this.seq);
  }

  failed(id: string): void {
    this.#failures.push({ seq: ++this.seq, id });
  }

  /** Each answer is one that the documents allow for something the sandbox was during the call. */
  judge(calls: readonly CallRecord[]): void {
    for (const call of calls) {
      const moments = this.#during(call);
      const found = moments.flatMap((moment) => foundIn(moment.row, call));
      if (moments.some(({ row }) => row && this.#wasLost(row.executionId, call.to.seq))) found.push("gone");
      const allowed = found.flatMap((state) => ALLOWED[call.op]?.[state] ?? []);
      if (moments.some(({ row }) => wouldBeDeletedBy(call, row))) allowed.push(400);
      const explained = FAILURES.includes(call.status) && this.#failedDuring(call, moments[0]?.seq ?? 0);
      if (!allowed.includes(call.status) && !explained) {
        this.faults.push(
          `${call.op} of ${call.id} answered ${call.status}, but it was ${[...new Set(found)].join(", ")}`,
        );
      }
      this.#judgeEffect(call, moments, found);
    }
    this.#judgeWinners(calls);
  }

  /** What a success claims must have happened within the call. */
  #judgeEffect(call: CallRecord, moments: readonly Moment[], found: readonly Found[]): void {
    const { op, id, status, shown } = call;
    const happened = (change: string, to: SandboxState) =>
      moments.some((moment) => moment.seq > call.from.seq && moment.change === change && moment.row?.state === to);
    const missing =
      (op === "pause" && status === 204 && !happened("finishPause", "paused")) ||
      (["resume", "connect", "brief connect"].includes(op) && status === 201 && !happened("finishResume", "running")) ||
      (op === "network" && status === 204 && !moments.some(({ change }) => change === "finishEgress")) ||
      ((op === "fork" || op === "snapshot") && status === 201 && !happened("beginSnapshot", "snapshotting"));
    if (missing) this.faults.push(`${op} of ${id} answered ${status}, but nothing of the kind happened`);
    if (
      shown === "running" &&
      !found.includes("running") &&
      !moments.some(({ row }) => row?.state === "snapshotting")
    ) {
      this.faults.push(`read of ${id} showed running, but it was ${found.join(", ")}`);
    }
    if (shown === "paused" && !found.includes("paused") && !found.includes("between")) {
      this.faults.push(`read of ${id} showed paused, but it was ${found.join(", ")}`);
    }
  }

  /** No more clients are told that they paused a sandbox than pauses were done for clients. */
  #judgeWinners(calls: readonly CallRecord[]): void {
    for (const [id, life] of this.#lives) {
      const told = calls.filter((call) => call.id === id && call.op === "pause" && call.status === 204).length;
      const begun = life.filter(({ change }) => change === "beginPause").length;
      if (told > begun) this.faults.push(`${told} clients paused ${id}, but ${begun} pauses began`);
    }
  }

  #judgeKill(before: Sandbox, row: Sandbox, where: string): void {
    const atRest = before.state === "running" || before.state === "paused";
    if (before.state === "killing" || before.killWanted) this.faults.push(`${where}: somebody had killed it already`);
    if (row.state !== (atRest ? "killing" : before.state)) this.faults.push(`${where}: it was ${before.state}`);
    if (before.executionId !== row.executionId) this.faults.push(`${where}: it was another run`);
  }

  #wasLost(executionId: string, by: number): boolean {
    return (this.#losses.get(executionId) ?? Number.POSITIVE_INFINITY) <= by;
  }

  #row(id: string): Sandbox | undefined {
    return this.#lives.get(id)?.at(-1)?.row;
  }

  #note(id: string, row: Sandbox | undefined, change: string): void {
    const life = this.#lives.get(id) ?? [];
    life.push({ seq: ++this.seq, row, change });
    this.#lives.set(id, life);
  }

  /** The moments of a call: what was when it began, and all that came until it was answered. */
  #during({ id, from, to }: CallRecord): Moment[] {
    const life = this.#lives.get(id) ?? [];
    const first = life.findLastIndex((moment) => moment.seq <= from.seq);
    const before: Moment = { seq: 0, row: undefined, change: "nothing" };
    return [life[first] ?? before, ...life.slice(first + 1).filter((moment) => moment.seq <= to.seq)];
  }

  /** Since the last change before the call: who joins a start learns of its failure, though that was a moment ago. */
  #failedDuring({ id, to }: CallRecord, since: number): boolean {
    const meant = this.#failures.filter((failure) => failure.id === id || failure.id === "*");
    return meant.some((failure) => failure.seq > since && failure.seq <= to.seq);
  }
}

/** A connect whose time is over when it begins, to what is not paused again then. */
function wouldBeDeletedBy({ op }: CallRecord, row: Sandbox | undefined): boolean {
  return op === "brief connect" && row?.state === "paused" && !row.autoPause;
}

function foundIn(row: Sandbox | undefined, { from, to }: CallRecord): Found[] {
  if (row === undefined) return ["gone"];
  if (row.killWanted || row.state === "killing") return ["over"];
  const found: Found[] = [];
  if (row.state === "running" || row.state === "snapshotting") {
    if (row.endAt <= to.at) found.push(row.autoPause ? "between" : "over");
    if (row.endAt > from.at) found.push(row.state === "running" ? "running" : "between");
    return found;
  }
  return [row.state === "paused" ? "paused" : "between"];
}
