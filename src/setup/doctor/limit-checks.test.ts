import { expect, test } from "bun:test";
import { memory } from "./limit-checks.ts";

const GIB = 1024 ** 3;

test("available memory is compared with the reserve", () => {
  const of = (availableGiB: number, percent?: number) =>
    memory({ totalBytes: 20 * GIB, availableBytes: availableGiB * GIB }, percent);
  expect(of(1.5, 5)).toEqual({ status: "ok", detail: "1.5 GiB of 20.0 GiB are available; the reserve is 1.0 GiB" });
  expect(of(0.5, 0)).toEqual({ status: "ok", detail: "0.5 GiB of 20.0 GiB are available; there is no reserve" });
  expect(of(0.5, 5)).toMatchObject({
    status: "degraded",
    detail: "0.5 GiB of 20.0 GiB are available, less than the reserve of 1.0 GiB",
    lost: "no sandbox starts, and idle ones with autoPause are paused",
  });
});
