/** A sandbox keeps the properties of its build, whatever happens to the template. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import type { SandboxKind } from "../../contract/internal/host.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { baseTemplate, ControlFixture } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
let requests: SandboxKind[];
beforeEach(async () => {
  fixture = await ControlFixture.open(new FakeHost({ images: ["base", "base-2"] }));
  requests = [];
  fixture.host.beforeCreate = async ({ kind }) => void requests.push(kind);
  fixture.host.beforeResume = async ({ kind }) => void requests.push(kind);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const rebuild = () =>
  fixture.restart([{ ...baseTemplate, image: "base-2", cpuCount: 8, defaultUser: "root", defaultWorkdir: "/" }]);

test("after a new build of its template, a resume and a fork keep image, user and folder", async () => {
  const id = await fixture.create({ timeout: 600 });
  await fixture.call("POST", `/sandboxes/${id}/pause`, {});
  await rebuild();
  await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 600 });
  const { body } = await fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
  await fixture.call("POST", `/sandboxes/${id}/fork`, {});
  await fixture.create({ templateID: body.snapshotID });
  expect(requests).toHaveLength(4);
  for (const kind of requests) {
    const { image, cpuCount, defaultUser, defaultWorkdir } = baseTemplate;
    expect(kind).toMatchObject({ image, cpuCount, defaultUser, defaultWorkdir });
  }
  await fixture.create();
  expect(requests.at(-1)).toMatchObject({ image: "base-2", cpuCount: 8, defaultUser: "root", defaultWorkdir: "/" });
});
