/**
 * Chaos: SIGKILL ends the server, crun, CRIU or the guest at every step of a sandbox's life. Afterwards the sandbox
 * runs or can be resumed, is unchanged, and nothing is left over. The one exception is reported to the caller: if CRIU,
 * or a process in which CRIU works at that moment, is killed, that process is lost (docs/pause.md).
 *
 * Each run kills the server once in every operation, and one of the other victims, in turn, at a moment that
 * SANDLOT_TEST_SEED chooses. SANDLOT_TEST_LONG=1 plays all scenarios, SANDLOT_TEST_CHAOS_ONLY those with these words in
 * their title, and SANDLOT_TEST_CHAOS_TOLD=1 prints how each went.
 */
import { describe, expect, test } from "bun:test";
import { LONG } from "../../src/base/testing/long.ts";
import { SEED } from "../../src/base/testing/seed.ts";
import { RUNTIME_NAMES, type RuntimeName } from "../../src/contract/runtime-name.ts";
import { seededRandom } from "../../src/control/testing/control-fixture.ts";
import { foldersOfFile } from "../support/server-of-file.ts";
import { OPERATIONS, type Operation } from "./operations.ts";
import {
  leaks,
  measurePace,
  newTestedSandbox,
  runScenario,
  type Scenario,
  type TestedSandbox,
  titleOf,
} from "./scenario.ts";
import { Stage } from "./stage.ts";
import type { Victim } from "./victims.ts";

/** Only scenarios with these words in their title, all of them. */
const ONLY = process.env.SANDLOT_TEST_CHAOS_ONLY ?? "";
/** Delays, spread over the time that the tool takes to make, remove or checkpoint a sandbox. */
const TOOL_MS = { crun: [0, 1, 3, 6, 10, 15], runsc: [0, 10, 30, 60, 120, 240] };
const VICTIMS: Readonly<Record<RuntimeName, readonly Victim[]>> = {
  crun: ["server", "crun", "criu", "guest"],
  // Its kernel has all processes of the sandbox in it, the guest too.
  runsc: ["server", "runsc"],
};
/** Into how many moments the work of CRIU is divided. */
const CRIU_MOMENTS = Number(process.env.SANDLOT_TEST_CHAOS_MOMENTS ?? 12);
const LATER_MS = 12;

const random = seededRandom(SEED);
const folder = foldersOfFile();

/** Each group has the moments at which one victim can be killed in one operation. */
function scenarioGroups(runtime: RuntimeName): Scenario[][] {
  return OPERATIONS.flatMap((operation, nth) =>
    victimsOf(operation, runtime, nth).map((victim) => scenariosOf(operation, victim)),
  );
}

/** All of the operation's victims in the long run; otherwise the server and the next of the others. */
function victimsOf(operation: Operation, runtime: RuntimeName, nth: number): readonly Victim[] {
  const victims = operation.victims.filter((victim) => VICTIMS[runtime].includes(victim));
  if (LONG || ONLY !== "") return victims;
  const others = victims.filter((victim) => victim !== "server");
  const other = others[nth % others.length];
  return other === undefined ? ["server"] : ["server", other];
}

function scenariosOf(operation: Operation, victim: Victim): Scenario[] {
  if (victim === "crun" || victim === "runsc") {
    return TOOL_MS[victim].map((ms) => ({ operation, victim, step: 0, after: { ms } }));
  }
  if (victim === "criu") {
    const shares = (step: number): Scenario[] =>
      Array.from({ length: CRIU_MOMENTS }, (_, nth) => ({
        operation,
        victim,
        step,
        after: { share: nth / CRIU_MOMENTS },
      }));
    const copies = operation.steps.findIndex(({ name }) => name.startsWith("a copy's"));
    return [0, copies].filter((step) => step >= 0).flatMap(shares);
  }
  return operation.steps.flatMap(({ isWithoutProcesses }, step) => {
    if (victim === "guest" && isWithoutProcesses === true) return [];
    return [0, 1 + Math.floor(random() * LATER_MS)].map((ms) => ({ operation, victim, step, after: { ms } }));
  });
}

function chosen(runtime: RuntimeName): Scenario[] {
  const groups = scenarioGroups(runtime);
  if ((LONG && runtime === "crun") || ONLY !== "") {
    return groups.flat().filter((scenario) => titleOf(scenario).includes(ONLY));
  }
  return groups.flatMap((group) => group[Math.floor(random() * group.length)] ?? []);
}

async function replace(stage: Stage, tested: TestedSandbox): Promise<TestedSandbox> {
  await stage.ask("DELETE", `/sandboxes/${tested.id}`);
  return await newTestedSandbox(stage);
}

// With runsc: a sample, in the long lane.
describe.each(LONG ? RUNTIME_NAMES : (["crun"] as const))("with %s", (runtime) => {
  const scenarios = chosen(runtime);

  test(
    `${scenarios.length} accidents: every loss is reported, nothing is left (SANDLOT_TEST_SEED=${SEED})`,
    async () => {
      const stage = await Stage.open(folder(`chaos-${runtime}`), { SANDLOT_WALL: runtime });
      let tested = await newTestedSandbox(stage);
      const pace = await measurePace(stage, tested);
      const faults: string[] = [];
      let missed = 0;
      for (const scenario of scenarios) {
        const begun = performance.now();
        // crun takes part in ending the sandboxes it made, not those that CRIU restored.
        if (scenario.victim === "crun") tested = await replace(stage, tested);
        const outcome = await runScenario(stage, tested, pace, scenario);
        if (!outcome.struck) missed++;
        const title = titleOf(scenario);
        if (process.env.SANDLOT_TEST_CHAOS_TOLD === "1") {
          const output = `${outcome.answer?.status ?? "-"} ${outcome.struck ? "" : "(missed) "}${outcome.faults.join("; ")}`;
          console.log(`${(performance.now() - begun).toFixed(0)} ms ${title}: ${output}`);
        }
        faults.push(...outcome.faults.map((fault) => `${title}: ${fault}`));
        if (!outcome.alive || outcome.faults.length > 0) tested = await replace(stage, tested);
      }
      expect(faults).toEqual([]);
      // Moments that never come would prove nothing.
      expect(missed).toBeLessThan(scenarios.length / 2);
      expect((await stage.ask("DELETE", `/sandboxes/${tested.id}`))?.status).toBe(204);
      expect(await leaks(stage, [])).toEqual([]);
      await stage.close();
    },
    LONG ? 3_600_000 : 900_000,
  );
});
