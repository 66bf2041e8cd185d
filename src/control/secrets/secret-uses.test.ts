import { expect, test } from "bun:test";
import { Background } from "../../base/background.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { SECRET_USES_KEPT_MAX, SecretUses } from "./secret-uses.ts";

test("the record of a secret is bounded: uses of the longest ago are removed", async () => {
  await using fixture = await ControlFixture.open();
  const { body } = await fixture.call("POST", "/secrets", { name: "many", value: "v" });
  const { secretID: secretId } = body as unknown as { secretID: string };
  const { store, clock, idleClock, services } = fixture;
  const uses = new SecretUses({ store, clock, idleClock, background: new Background(services.log) });
  const note = (nth: number) =>
    uses.note({ secretId, version: 1, sandboxId: `s${nth}`, host: "a.test", pattern: "a.test" });
  note(0);
  await fixture.advance(1);
  for (let nth = 1; nth <= SECRET_USES_KEPT_MAX; nth++) note(nth);
  await uses.flush();
  const kept = await fixture.store.secretUses.of(secretId, 0, 2 * SECRET_USES_KEPT_MAX);
  expect(kept).toHaveLength(SECRET_USES_KEPT_MAX);
  expect(kept.some(({ sandboxId }) => sandboxId === "s0")).toBe(false);
});
