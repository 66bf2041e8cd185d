import { describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { resolvePath } from "./paths.ts";

const ada = { name: "ada", uid: 1000, gid: 1000, home: "/home/ada", groups: [1000] };

describe("a path given by a client", () => {
  test.each([
    ["", "", "/home/ada"],
    ["", "/srv/app", "/srv/app"],
    ["~", "/srv/app", "/home/ada"],
    ["~/x/../y", "", "/home/ada/y"],
    ["~\\x", "", "/home/ada/x"],
    ["notes.txt", "/srv/app", "/home/ada/notes.txt"],
    ["./a/../b", "", "/home/ada/b"],
    ["/tmp/../etc//x/", "", "/tmp/../etc//x/"],
    ["100%25 sure\nreally", "", "/home/ada/100%25 sure\nreally"],
  ])("%j with the default workdir %j is %j", (given, workdir, absolute) => {
    expect(resolvePath(given, ada, workdir)).toBe(absolute);
  });

  test.each(["~bob/x", "~bob", "/a\0b"])("%j is refused", (given) => {
    expect(() => resolvePath(given, ada, "")).toThrow(Fault);
  });
});
