/** One failure at one moment: runs it on a stage and judges the result. */
import { Sandbox } from "e2b";
import { census, NOTHING } from "../support/census.ts";
import { until } from "../support/until.ts";
import { LONG_SECONDS, type Operation, OperationWatch } from "./operations.ts";
import { type Answer, namesIn, type Stage } from "./stage.ts";
import { isAtWork, killProcesses, type Victim } from "./victims.ts";
import { plantWitness, readWitness } from "./witness.ts";

/** The first of its kind takes longer than the others. */
const PACES = 3;
/** Number of files that runsc keeps for one sandbox. */
const RUNSC_FILES = 3;

export interface Scenario {
  operation: Operation;
  victim: Victim;
  /** The step with which the wait begins. */
  step: number;
  /** Delay after that step and, for a tool, after the start of its work; for long work, as a share of its duration. */
  after: { ms: number } | { share: number };
}

/** Durations of an undisturbed CRIU dump and restore. */
interface Pace {
  dumpMs: number;
  restoreMs: number;
}

export function titleOf({ operation, victim, step, after }: Scenario): string {
  const seen = `"${operation.steps[step]?.name}"`;
  if ((victim === "crun" || victim === "runsc") && "ms" in after)
    return `${victim} killed during ${operation.name}, ${after.ms} ms after its start`;
  if ("ms" in after) return `${victim} killed during ${operation.name}, ${after.ms} ms after ${seen}`;
  const from = step > 0 ? ` that follows ${seen}` : "";
  return `${victim} killed during ${operation.name}, at ${Math.round(after.share * 100)} % of its work${from}`;
}

/** A sandbox with a witness in it that goes from scenario to scenario as long as it lives. */
export interface TestedSandbox {
  id: string;
  word: string;
}

export async function newTestedSandbox(stage: Stage): Promise<TestedSandbox> {
  const made = await stage.ask("POST", "/sandboxes", { templateID: "base", timeout: LONG_SECONDS });
  if (made?.status !== 201) throw new Error(`a sandbox could not be made: ${JSON.stringify(made)}`);
  const id: string = made.body.sandboxID;
  return { id, word: await plantWitness(stage, id) };
}

interface Outcome {
  answer: Answer | undefined;
  /** False: the operation ended before the moment came, or there was no process to kill. */
  struck: boolean;
  faults: string[];
  /** The sandbox lives and can go on. */
  alive: boolean;
}

/** Measures how long CRIU takes to pause and resume the sandbox. */
export async function measurePace(stage: Stage, { id }: TestedSandbox): Promise<Pace> {
  const watch = new OperationWatch(stage, id);
  const timed = async (action: "pause" | "resume", isAtWork: () => boolean): Promise<number> => {
    let [over, first, last] = [false, 0, 0];
    const answered = stage.ask("POST", `/sandboxes/${id}/${action}`, { timeout: LONG_SECONDS }).finally(() => {
      over = true;
    });
    while (!over) {
      if (isAtWork()) {
        last = performance.now();
        first ||= last;
      }
      await Bun.sleep(0);
    }
    const answer = await answered;
    if (answer === undefined || answer.status >= 300)
      throw new Error(`the ${action} failed: ${JSON.stringify(answer)}`);
    return last - first;
  };
  const pace = { dumpMs: Number.POSITIVE_INFINITY, restoreMs: Number.POSITIVE_INFINITY };
  for (let nth = 0; nth < PACES; nth++) {
    pace.dumpMs = Math.min(pace.dumpMs, await timed("pause", () => watch.working("dump")));
    pace.restoreMs = Math.min(pace.restoreMs, await timed("resume", () => watch.working("restore")));
  }
  return pace;
}

export async function runScenario(
  stage: Stage,
  tested: TestedSandbox,
  pace: Pace,
  scenario: Scenario,
): Promise<Outcome> {
  const { operation, victim } = scenario;
  if (operation.from === "paused") {
    const paused = await stage.ask("POST", `/sandboxes/${tested.id}/pause`, {});
    if (paused?.status !== 204) throw new Error(`the pause before it was answered ${JSON.stringify(paused)}`);
  }
  const watch = new OperationWatch(stage, tested.id);
  let over = false;
  const answered = operation.begin(stage, tested.id).finally(() => {
    over = true;
  });
  const came = await untilMoment(scenario, watch, pace, () => over);
  const struck = (came || victim === "server") && (await killProcesses(stage, victim));
  const answer = await answered;
  const loss = victim === "criu" || victim === "guest" || victim === "runsc" ? toldLoss(answer) : undefined;
  if (loss === "sandbox") await until("the loss is known", async () => !(await stage.listed()).has(tested.id));
  const { faults, alive } = await judge(stage, tested, { operation, answer, loss });
  return { answer, struck: struck && came, faults, alive: alive && loss === undefined };
}

/**
 * CRIU that is killed while it works inside a process takes that process with it (criu.ts). It also gives up when
 * another process is killed during its work. The host cannot prevent this, but it must tell the caller, in these words.
 */
function toldLoss(answer: Answer | undefined): "sandbox" | "process" | undefined {
  if (answer?.status === 404) return "sandbox";
  return answer?.status === 503 && /ended with it/.test(answer.body.message) ? "process" : undefined;
}

/** False: the operation was over before. */
async function untilMoment(
  scenario: Scenario,
  watch: OperationWatch,
  pace: Pace,
  isOver: () => boolean,
): Promise<boolean> {
  const { operation, victim, step, after } = scenario;
  const isSeen = operation.steps[step]?.isSeen ?? (() => true);
  while (!isSeen(watch) || (victim !== "server" && !isAtWork(watch.stage, victim))) {
    if (isOver()) return false;
    await Bun.sleep(0);
  }
  const workMs = watch.working("dump") ? pace.dumpMs : pace.restoreMs;
  await Bun.sleep("ms" in after ? after.ms : after.share * workMs);
  return true;
}

export async function judge(
  stage: Stage,
  tested: TestedSandbox,
  { operation, answer, loss }: { operation: Operation; answer: Answer | undefined; loss: ReturnType<typeof toldLoss> },
): Promise<{ faults: string[]; alive: boolean }> {
  const faults: string[] = [];
  const listed = await stage.listed();
  if (loss !== "sandbox") faults.push(...contradictions(operation, answer, tested, listed));
  for (const id of promised(operation, answer)) if (!listed.has(id)) faults.push(`${id}, which was answered, is lost`);

  for (const [id, state] of listed) {
    if (state === "paused") {
      const resumed = await stage.ask("POST", `/sandboxes/${id}/connect`, { timeout: LONG_SECONDS });
      if (resumed?.status !== 201) faults.push(`${id} cannot be resumed: ${JSON.stringify(resumed)}`);
    }
    const isCopy = loss === undefined && (id === tested.id || operation.name === "fork");
    faults.push(...(await isItself(stage, id, isCopy ? tested.word : undefined)));
  }
  faults.push(...(await tryAndDeleteSnapshots(stage, tested)));
  const others = [...listed.keys()].filter((id) => id !== tested.id);
  for (const id of others) {
    const killed = await stage.ask("DELETE", `/sandboxes/${id}`);
    if (killed?.status !== 204) faults.push(`${id} cannot be killed: ${JSON.stringify(killed)}`);
  }
  faults.push(...(await leaks(stage, listed.has(tested.id) ? [tested.id] : [])));
  return { faults, alive: listed.has(tested.id) };
}

/** Contradictions between the response and the state of the sandbox. */
function contradictions(
  operation: Operation,
  answer: Answer | undefined,
  tested: TestedSandbox,
  listed: ReadonlyMap<string, string>,
): string[] {
  const state = listed.get(tested.id);
  const output = `${operation.name} was answered ${answer?.status ?? "not at all"} ${JSON.stringify(answer?.body ?? "")}`;
  if (operation.name.startsWith("kill")) {
    return answer?.status === 204 && state !== undefined ? [`${output}, but it is ${state}`] : [];
  }
  if (state === undefined) return [`the sandbox is lost; ${output}`];
  const wanted: Record<string, { done: string; undone: string }> = {
    pause: { done: "paused", undone: "running" },
    resume: { done: "running", undone: "paused" },
  };
  const { done, undone } = wanted[operation.name] ?? { done: "running", undone: "running" };
  if (answer === undefined) return [];
  return state === (answer.status < 300 ? done : undone) ? [] : [`${output}, but it is ${state}`];
}

/** Ids that the response gave to a client. */
function promised(operation: Operation, answer: Answer | undefined): string[] {
  if (answer?.status !== 201) return [];
  if (operation.name === "create") return [answer.body.sandboxID];
  if (operation.name !== "fork") return [];
  return answer.body.flatMap((entry: { sandbox?: { sandboxID: string } }) => entry.sandbox?.sandboxID ?? []);
}

/** Retries, because an overloaded machine answers late; a lost program never answers, however often it is asked. */
async function readWitnessPatiently(stage: Stage, id: string): ReturnType<typeof readWitness> {
  let output: Awaited<ReturnType<typeof readWitness>>;
  const hasSpoken = async () => {
    output = await readWitness(stage, id);
    return output !== undefined;
  };
  await until("the witness speaks", hasSpoken).catch(() => undefined);
  return output;
}

/** The sandbox answers, and its processes and files are unchanged. */
async function isItself(stage: Stage, id: string, word: string | undefined): Promise<string[]> {
  try {
    const sandbox = await Sandbox.connect(id, { ...stage.server.options, timeoutMs: LONG_SECONDS * 1000 });
    // A killed guest is back within a second; requests in that moment fail.
    const isAlive = async () => (await sandbox.commands.run("echo alive")).stdout === "alive\n";
    await until("it answers", () => isAlive().catch(() => false));
    if (word === undefined) return [];
    const output = await readWitnessPatiently(stage, id);
    if (output?.word !== word) return [`${id} has lost its memory: it says ${JSON.stringify(output)}, not ${word}`];
    if (output.file !== word) return [`${id} has lost its file: it says ${JSON.stringify(output)}`];
    if (output.line !== word) return [`a connection within ${id} does not work any more: ${JSON.stringify(output)}`];
    await sandbox.files.write("/home/user/later", word);
    return [];
  } catch (error) {
    return [`${id} cannot be used: ${String(error)}`];
  }
}

/** Every snapshot that is listed holds the tested sandbox as it was. */
async function tryAndDeleteSnapshots(stage: Stage, tested: TestedSandbox): Promise<string[]> {
  const answer = await stage.ask("GET", "/snapshots");
  const faults: string[] = [];
  for (const { snapshotID } of (answer?.body ?? []) as { snapshotID: string }[]) {
    const made = await stage.ask("POST", "/sandboxes", { templateID: snapshotID, timeout: LONG_SECONDS });
    if (made?.status === 201) {
      faults.push(...(await isItself(stage, made.body.sandboxID, tested.word)));
      await stage.ask("DELETE", `/sandboxes/${made.body.sandboxID}`);
    } else faults.push(`nothing can be made of snapshot ${snapshotID}: ${JSON.stringify(made)}`);
    await Sandbox.deleteSnapshot(snapshotID, stage.server.options);
  }
  return faults;
}

/** What is on the machine beyond the needs of `running`. */
export async function leaks(stage: Stage, running: readonly string[]): Promise<string[]> {
  let found: string[] = [];
  const look = async () => {
    const now = await census(stage.dataFolder);
    const each = { runFolders: now.runFolders, disks: now.disks, interfaces: now.interfaces };
    found = Object.entries(each).flatMap(([what, count]) => (count === running.length ? [] : [`${count} ${what}`]));
    if (now.mounts > 0) found.push(`${now.mounts} mounts`);
    if (now.crunRecords > running.length) found.push(`${now.crunRecords} records of crun`);
    if (now.runscRecords > running.length * RUNSC_FILES) found.push(`${now.runscRecords} records of runsc`);
    if (running.length === 0) {
      const { loopDevices: _shared, ...rest } = now;
      const { loopDevices: _none, ...nothing } = NOTHING;
      if (!Bun.deepEquals(rest, nothing)) found.push(JSON.stringify(rest));
    }
    const cgroups = stage.cgroups().filter((name) => !name.includes(".") || name.startsWith("i"));
    const strays = cgroups.filter((name) => !running.includes(name) && !isControlFile(name));
    if (strays.length > 0) found.push(`cgroups ${strays.join(", ")}`);
    const checkpoints = namesIn(stage.checkpoints);
    if (checkpoints.length > 0) found.push(`checkpoints ${checkpoints.join(", ")}`);
    return found.length === 0;
  };
  await until("nothing is left", look).catch(() => undefined);
  return found.map((what) => `left behind: ${what}`);
}

/** Files of the kernel's beside the cgroups. */
function isControlFile(name: string): boolean {
  return !/^i[a-z0-9]{20}(\.|$)/.test(name);
}
