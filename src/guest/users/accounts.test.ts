import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { folderOfTest } from "../../base/testing/test-folder.ts";
import { Accounts } from "./accounts.ts";

const etc = folderOfTest("accounts");

test("a user has the groups that list it, the primary one first and once", () => {
  writeFileSync(`${etc}/passwd`, "# comment\nada:x:1000:1001:Ada,,,:/home/ada:/bin/sh\nbroken:x:abc:1:::\n");
  writeFileSync(`${etc}/group`, "ada:x:1001:ada\ndocker:x:999:bob,ada\nadam:x:7:adam\n");
  const accounts = new Accounts(etc);
  expect(accounts.find("ada")).toEqual({ name: "ada", uid: 1000, gid: 1001, home: "/home/ada", groups: [1001, 999] });
  expect(accounts.find("broken")).toBeUndefined();
  expect(accounts.userName(1000)).toBe("ada");
  expect(accounts.groupName(999)).toBe("docker");
  expect([accounts.userName(5), accounts.groupName(5)]).toEqual(["5", "5"]);
});

test("a changed file is seen at once", () => {
  writeFileSync(`${etc}/passwd`, "a:x:1:1::/:\n");
  const accounts = new Accounts(etc);
  expect(accounts.find("b")).toBeUndefined();
  writeFileSync(`${etc}/passwd`, "b:x:2:2::/:\n");
  expect(accounts.find("b")?.uid).toBe(2);
  expect(accounts.find("a")).toBeUndefined();
});

test("root exists without a passwd file", () => {
  expect(new Accounts(etc).find("root")).toEqual({ name: "root", uid: 0, gid: 0, home: "/root", groups: [0] });
});
