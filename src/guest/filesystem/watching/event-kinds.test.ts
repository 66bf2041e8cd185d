/** Mapping of kernel events to wire events, and parsing of a block of kernel events. */
import { describe, expect, test } from "bun:test";
import { EventType } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { eventTypes, leavesEntry } from "./event-kinds.ts";
import { IN, parseEvents } from "./inotify.ts";

const { CREATE, RENAME, CHMOD, WRITE, REMOVE } = EventType;

describe("an event of the kernel", () => {
  test.each([
    ["made", IN.CREATE, [CREATE]],
    ["moved in", IN.MOVED_TO, [CREATE]],
    ["moved out", IN.MOVED_FROM, [RENAME]],
    ["moved itself", IN.MOVE_SELF, [RENAME]],
    ["other attributes", IN.ATTRIB, [CHMOD]],
    ["other content", IN.MODIFY, [WRITE]],
    ["deleted", IN.DELETE, [REMOVE]],
    ["deleted itself", IN.DELETE_SELF, [REMOVE]],
    ["a directory", IN.CREATE | IN.ISDIR, [CREATE]],
    ["nothing of interest", IN.IGNORED, []],
    [
      "everything at once",
      IN.DELETE | IN.MODIFY | IN.ATTRIB | IN.MOVED_FROM | IN.CREATE,
      [CREATE, RENAME, CHMOD, WRITE, REMOVE],
    ],
  ])("%s", (_, mask, types) => {
    expect(eventTypes(mask)).toEqual(types);
  });

  test("leaves something to look at unless it took it away", () => {
    expect([CREATE, WRITE, CHMOD, RENAME, REMOVE].map(leavesEntry)).toEqual([true, true, true, false, false]);
  });
});

test("a block of events is read whole, names up to their first zero", () => {
  const event = (wd: number, mask: number, cookie: number, name: string, padded: number) => {
    const bytes = Buffer.alloc(16 + padded);
    bytes.writeInt32LE(wd, 0);
    bytes.writeUInt32LE(mask, 4);
    bytes.writeUInt32LE(cookie, 8);
    bytes.writeUInt32LE(padded, 12);
    bytes.write(name, 16);
    return bytes;
  };
  const block = Buffer.concat([
    event(1, IN.CREATE, 0, "é", 16),
    event(2, IN.DELETE_SELF, 0, "", 0),
    event(-1, IN.Q_OVERFLOW, 0, "", 0),
    event(3, IN.MOVED_TO | IN.ISDIR, 77, "sixteen letters!", 16),
  ]);
  expect(parseEvents(block)).toEqual([
    { wd: 1, mask: IN.CREATE, cookie: 0, name: "é" },
    { wd: 2, mask: IN.DELETE_SELF, cookie: 0, name: "" },
    { wd: -1, mask: IN.Q_OVERFLOW, cookie: 0, name: "" },
    { wd: 3, mask: IN.MOVED_TO | IN.ISDIR, cookie: 77, name: "sixteen letters!" },
  ]);
});
