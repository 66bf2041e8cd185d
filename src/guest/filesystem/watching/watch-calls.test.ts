/**
 * `GetWatcherEvents` right after a change. The calls are made in the test's process, so that nothing reads the kernel's
 * queue between the change and the call.
 */
import { expect, test } from "bun:test";
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createHandlerContext, type HandlerContext } from "@connectrpc/connect";
import { folderOfTest } from "../../../base/testing/test-folder.ts";
import { Filesystem } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { Accounts } from "../../users/accounts.ts";
import { EventBuffer } from "./event-buffer.ts";
import { Watch } from "./watch.ts";
import { watchCalls } from "./watch-calls.ts";
import { Watchers } from "./watchers.ts";

const OPTIONS = { recursive: true, includeEntry: true, allowNetworkMounts: false };

const folder = folderOfTest("watch");

const context = (method: "createWatcher" | "getWatcherEvents" | "removeWatcher"): HandlerContext =>
  createHandlerContext({
    service: Filesystem,
    method: Filesystem.method[method],
    protocolName: "connect",
    requestMethod: "POST",
    url: "http://localhost",
  });

// Guards against a first response that is empty, because the watcher has not caught up.
test.each([false, true])("GetWatcherEvents has the change made just before, recursive: %p", async (recursive) => {
  const calls = watchCalls(
    new Watchers(new Accounts()),
    (path) => path,
    () => true,
  );
  const request = { ...OPTIONS, $typeName: "filesystem.CreateWatcherRequest", path: folder, recursive } as const;
  const { watcherId = "" } = await calls.createWatcher(request, context("createWatcher"));
  const reportOf = async () => {
    const poll = { $typeName: "filesystem.GetWatcherEventsRequest", watcherId } as const;
    const { events = [] } = await calls.getWatcherEvents(poll, context("getWatcherEvents"));
    return events.map(({ name, entry }) => [name, entry?.size]);
  };
  mkdirSync(`${folder}/sub`);
  writeFileSync(`${folder}/sub/f`, "123");
  const below = recursive ? [["sub/f", 3n]] : [];
  expect((await reportOf()).filter(([name]) => name !== "sub")).toEqual(below);
  appendFileSync(`${folder}/g`, "1");
  rmSync(`${folder}/g`);
  expect(await reportOf()).toEqual([
    ["g", undefined],
    ["g", undefined],
    ["g", undefined],
  ]);
  expect(await reportOf()).toEqual([]);
  await calls.removeWatcher({ $typeName: "filesystem.RemoveWatcherRequest", watcherId }, context("removeWatcher"));
});

test("GetWatcherEvents does not wait for an ended watch", async () => {
  const open = () => Watch.open(folder, OPTIONS, new EventBuffer(), new Accounts(), new AbortController().signal);
  const watch = await open();
  const waiting = watch.catchUp(600_000);
  await watch.close();
  await waiting;
  await watch.catchUp(600_000);
});
