/**
 * The model that judges the storm test: a second, much simpler state machine of a sandbox. It observes every change of
 * a row and every act of the host, and compares both with its own state. Afterwards it checks every response against
 * the states that the sandbox had during the call.
 */
import type { Sandbox, SandboxState } from "../../store/sandboxes.ts";
import type { Store, Tables } from "../../store/store.ts";

/** The states that a call may find, in the words of the docs. */
type Found = "running" | "paused" | "in-transition" | "over" | "gone";

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

/** States that may follow a change of rules. */
const NOT_KILLING: readonly SandboxState[] = ["running", "snapshotting", "pausing", "paused"];

/** The states that each change may come from and lead to. A requested kill turns every target into `killing`. */
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

/** The required state while the host acts on a sandbox. */
const ACTS: Readonly<Record<string, SandboxState>> = {
  pause: "pausing",
  resume: "resuming",
  snapshot: "snapshotting",
  destroy: "killing",
};

/** Statuses that the docs allow for each state found. */
const ALLOWED: Readonly<Record<string, Readonly<Record<Found, readonly number[]>>>> = {
  read: { running: [200], paused: [200], "in-transition": [200], over: [404], gone: [404] },
  kill: { running: [204], paused: [204], "in-transition": [204], over: [204], gone: [404] },
  pause: { running: [204], paused: [409], "in-transition": [503], over: [404], gone: [404] },
  // 201 in transition: the call joined a start in progress, which is checked separately.
  resume: { running: [409], paused: [201], "in-transition": [201, 409], over: [404, 409], gone: [404] },
  connect: { running: [200], paused: [201], "in-transition": [201, 409], over: [409], gone: [404] },
  // With timeout 0. It must not resume a sandbox that it would delete; that is checked separately.
  "brief connect": { running: [200], paused: [201], "in-transition": [201, 409], over: [409], gone: [404] },
  timeout: { running: [204], paused: [404], "in-transition": [409], over: [409], gone: [404] },
  refresh: { running: [204], paused: [404], "in-transition": [409], over: [409], gone: [404] },
  network: { running: [204], paused: [409], "in-transition": [409], over: [404], gone: [404] },
  fork: { running: [201], paused: [409], "in-transition": [409], over: [404], gone: [404] },
  snapshot: { running: [201], paused: [404], "in-transition": [409], over: [404], gone: [404] },
  // 200: reachable; 502, 409: as the edge would respond.
  wake: { running: [200], paused: [200, 502], "in-transition": [409, 502], over: [409, 502], gone: [502] },
};

/** Also allowed when the host failed. */
const FAILURES: readonly number[] = [422, 500, 503];

export class StormModel {
  readonly #lives = new Map<string, Moment[]>();
  /** When the host was made to fail, and for which sandbox; `*` when that is unknown. */
  readonly #failures: { seq: number; id: string }[] = [];
  /** When runs were lost, by execution id. */
  readonly #losses = new Map<string, number>();
  readonly faults: string[] = [];
  seq = 0;

  /** Observes the store. `unsettle` is awaited around each statement, so that other calls come between. */
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
    store.transaction = (work, durability) =>
      transaction((tables: Tables) => {
        const add = async (row: Sandbox) => {
          await tables.sandboxes.add(row);
          this.#note(row.id, row, "add");
        };
        return work({ ...tables, sandboxes: { ...tables.sandboxes, add } });
      }, durability);
  }

  /** A call reports that it won a change of this row. */
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

  /** The host acts on a sandbox that has a row. */
  acted(act: keyof typeof ACTS, id: string, checkpoint?: string): void {
    const row = this.#row(id);
    if (row === undefined) return;
    if (row.state !== ACTS[act]) this.faults.push(`${act} of ${id} while it was ${row.state}`);
    if (checkpoint !== undefined && act !== "snapshot" && row.checkpoint !== checkpoint) {
      this.faults.push(`${act} of ${id} with ${checkpoint}, not ${row.checkpoint}`);
    }
  }

  /** A sandbox has died. Until its row says so, it counts both as its row says and as gone. */
  lost(id: string): void {
    const executionId = this.#row(id)?.executionId;
    if (executionId !== undefined) this.#losses.set(executionId, ++this.seq);
  }

  failed(id: string): void {
    this.#failures.push({ seq: ++this.seq, id });
  }

  /** Checks that the docs allow each response for some state that the sandbox had during the call. */
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

  /** A success must have had its effect within the call. */
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
    if (shown === "paused" && !found.includes("paused") && !found.includes("in-transition")) {
      this.faults.push(`read of ${id} showed paused, but it was ${found.join(", ")}`);
    }
  }

  /** At most as many clients are told that they paused a sandbox as pauses were done for clients. */
  #judgeWinners(calls: readonly CallRecord[]): void {
    for (const [id, life] of this.#lives) {
      const paused = calls.filter((call) => call.id === id && call.op === "pause" && call.status === 204).length;
      const begun = life.filter(({ change }) => change === "beginPause").length;
      if (paused > begun) this.faults.push(`${paused} clients paused ${id}, but ${begun} pauses began`);
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

  /** The states of a call: the one at its beginning, and all until its response. */
  #during({ id, from, to }: CallRecord): Moment[] {
    const life = this.#lives.get(id) ?? [];
    const first = life.findLastIndex((moment) => moment.seq <= from.seq);
    const before: Moment = { seq: 0, row: undefined, change: "nothing" };
    return [life[first] ?? before, ...life.slice(first + 1).filter((moment) => moment.seq <= to.seq)];
  }

  /** Since the last change before the call: a call that joins a start gets its failure, even one from a moment ago. */
  #failedDuring({ id, to }: CallRecord, since: number): boolean {
    const meant = this.#failures.filter((failure) => failure.id === id || failure.id === "*");
    return meant.some((failure) => failure.seq > since && failure.seq <= to.seq);
  }
}

/** A connect with timeout 0 to a paused sandbox without autoPause. */
function wouldBeDeletedBy({ op }: CallRecord, row: Sandbox | undefined): boolean {
  return op === "brief connect" && row?.state === "paused" && !row.autoPause;
}

function foundIn(row: Sandbox | undefined, { from, to }: CallRecord): Found[] {
  if (row === undefined) return ["gone"];
  if (row.killWanted || row.state === "killing") return ["over"];
  const found: Found[] = [];
  if (row.state === "running" || row.state === "snapshotting") {
    if (row.endAt <= to.at) found.push(row.autoPause ? "in-transition" : "over");
    if (row.endAt > from.at) found.push(row.state === "running" ? "running" : "in-transition");
    return found;
  }
  return [row.state === "paused" ? "paused" : "in-transition"];
}
