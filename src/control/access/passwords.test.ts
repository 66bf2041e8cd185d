/** Bounds of checking passwords. What a login does with them is in `login-pages.test.ts`. */
import { expect, test } from "bun:test";
import { ControlFixture } from "../testing/control-fixture.ts";
import { KNOWN_PASSWORD_CHECKS_MAX, PASSWORD_CHECKS_MAX, Passwords } from "./passwords.ts";

test("one password is checked at a time, few wait, and one more is refused", async () => {
  await using fixture = await ControlFixture.open();
  const finish = Promise.withResolvers<boolean>();
  const checked: string[] = [];
  const passwords = new Passwords(fixture.store, (password, hash) => {
    checked.push(`${password} ${hash.slice(0, 30)}`);
    return finish.promise;
  });
  const all = Array.from({ length: PASSWORD_CHECKS_MAX }, (_, nth) => passwords.userOf(`${nth}@x`, "secret"));
  const refused = { status: 503, headers: { "Retry-After": expect.any(String) } };
  await expect(passwords.userOf("more@x", "secret")).rejects.toMatchObject(refused);
  const known = () => passwords.userOf("known@x", "secret", { isKnown: true });
  for (let nth = 0; nth < KNOWN_PASSWORD_CHECKS_MAX; nth++) all.push(known());
  await expect(known()).rejects.toMatchObject(refused);
  await fixture.until(() => checked.length > 0);
  await fixture.untilIdle();
  expect(checked).toHaveLength(1);
  finish.resolve(true);
  expect(new Set(await Promise.all(all))).toEqual(new Set([undefined]));
  expect(new Set(checked)).toEqual(new Set(["secret $argon2id$v=19$m=65536,t=3,p=1"]));
  expect(checked).toHaveLength(PASSWORD_CHECKS_MAX + KNOWN_PASSWORD_CHECKS_MAX);
  expect(await passwords.userOf("later@x", "secret")).toBeUndefined();
});
