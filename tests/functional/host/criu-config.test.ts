/** CRIU must see only a sandbox's own cgroups: by default it copies those of the whole machine. */
import { expect, test } from "bun:test";
import { controllerLines } from "../../../src/sandbox/runtime/crun/criu-config.ts";

test("with cgroup v1 and hybrid layouts CRIU gets the controllers, without named trees and the unified one", () => {
  const hybrid = "9:name=systemd:/\n8:pids:/\n2:cpu,cpuacct:/x\n0::/\n";
  expect(controllerLines(hybrid)).toBe(
    "cgroup-dump-controller pids\ncgroup-dump-controller cpu\ncgroup-dump-controller cpuacct\n",
  );
});

test("with cgroup v2 CRIU gets no list of controllers", () => {
  expect(controllerLines("0::/user.slice/x\n")).toBe("");
});
