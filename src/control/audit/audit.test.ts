/** The batches of the audit log: bounded, kept over a failure of the store, removed with age. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { Background } from "../../base/background.ts";
import { jsonLog } from "../../base/log.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { AUDIT_WAITING_MAX, AUDIT_WRITTEN_EVERY_MS, AuditLog, commandOrigin } from "./audit.ts";

let fixture: ControlFixture;
let lines: string[];
beforeEach(async () => {
  lines = [];
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

function open(changes: { store?: object } = {}) {
  const log = jsonLog((line) => lines.push(line));
  const background = new Background(log);
  const { clock, idleClock, ids, store } = fixture;
  const parts = { clock, idleClock, ids, log, background, store: { ...store, ...changes.store } };
  return { audit: new AuditLog(parts, 2), settled: () => background.settled() };
}

const stored = async () =>
  (await fixture.store.auditLog.list({}, undefined, 100)).map(({ object }) => object).toSorted();
const note = (audit: AuditLog, object: string, teamId: string | null = null) =>
  audit.note(commandOrigin("test"), { teamId, object, status: 200 });

test("more entries than may wait are dropped, and the log says how many", async () => {
  const fails = { transaction: () => Promise.reject(new Error("the store is away")) };
  const { audit } = open({ store: fails });
  for (let nth = 0; nth < AUDIT_WAITING_MAX + 3; nth++) note(audit, "x");
  await audit.flush();
  expect(lines.join()).toContain('"event":"the audit log was too slow, entries were dropped","count":3');
  await audit.close();
});

test("entries that a failing store did not take are written at the next time", async () => {
  let isAway = true;
  const transaction: ControlFixture["store"]["transaction"] = (work, durability) =>
    isAway ? Promise.reject(new Error("away")) : fixture.store.transaction(work, durability);
  const { audit, settled } = open({ store: { transaction } });
  note(audit, "first");
  await fixture.idleClock.advance(AUDIT_WRITTEN_EVERY_MS, settled);
  expect(await stored()).toEqual([]);
  note(audit, "second");
  isAway = false;
  await fixture.idleClock.advance(AUDIT_WRITTEN_EVERY_MS, settled);
  expect(await stored()).toEqual(["first", "second"]);
  await audit.close();
});

test("entries are removed after their days", async () => {
  const { audit, settled } = open();
  note(audit, "old");
  await audit.flush();
  await fixture.advance(2 * 86_400_000 + 1);
  note(audit, "new");
  await audit.flush();
  audit.start();
  await settled();
  expect(await stored()).toEqual(["new"]);
  await audit.close();
});
