/** A store that is unavailable for some of its calls, for tests on a fixture. */
import { untilTrue } from "../../base/testing/until.ts";
import { Fault } from "../../contract/fault.ts";
import { STORE_RETRY_MAX_MS } from "../limits.ts";
import type { ControlFixture } from "./control-fixture.ts";

/** Refuses these calls until `end`. `refused` counts them. */
export function outageOf(table: object, name: string): { refused: number; end(): void } {
  const real = Reflect.get(table, name);
  const outage = { refused: 0, end: () => void Reflect.set(table, name, real) };
  const refuse = () => {
    outage.refused += 1;
    return Promise.reject(new Fault(503, "the database is not available"));
  };
  Reflect.set(table, name, refuse);
  return outage;
}

/** Lets time pass until the background work is done. */
export async function settledOf(fixture: ControlFixture): Promise<void> {
  let isDone = false;
  const done = fixture.control.settled().then(() => {
    isDone = true;
  });
  await untilTrue(async () => {
    await fixture.clock.advance(STORE_RETRY_MAX_MS, () => fixture.untilIdle());
    return isDone;
  });
  await done;
}
