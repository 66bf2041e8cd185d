/** Short calls of a team on its sandboxes, for tests of team limits. */
import { expect } from "bun:test";
import type { ForkAnswer } from "../../contract/management/fork.ts";
import type { ControlFixture } from "./control-fixture.ts";

export function callsOfTeam(fixture: () => ControlFixture) {
  const call = (path: string, body?: unknown) => fixture().call("POST", path, body);
  const make = (count: number, fields: Record<string, unknown>) =>
    Promise.all(Array.from({ length: count }, () => fixture().create({ timeout: 600, ...fields })));
  const create = (path = "/v2/sandboxes") => call(path, { templateID: "base" });
  const pause = (id: string) => call(`/sandboxes/${id}/pause`);
  return {
    create,
    pause,
    resume: (id: string) => call(`/sandboxes/${id}/resume`, { timeout: 600 }),
    connect: (id: string) => call(`/v2/sandboxes/${id}/connect`, { timeout: 600 }),
    wake: (id: string) =>
      fixture().control.directory.wake(id, { port: 3000, accessToken: null, trafficToken: null, mayWake: true }),

    async fork(id: string, count: number): Promise<{ status: number; entries: ForkAnswer }> {
      const reply = await call(`/sandboxes/${id}/fork`, { count, timeout: 600 });
      return { status: reply.status, entries: reply.status === 201 ? (reply.body as unknown as ForkAnswer) : [] };
    },

    limit: (sandboxes: number | undefined) =>
      fixture().store.people.setLimits(fixture().firstRun.teamId, { sandboxes }),

    running: (count: number) => make(count, {}),

    /** Sandboxes that traffic may wake. */
    async paused(count: number): Promise<string[]> {
      const ids = await make(count, { autoResume: { enabled: true } });
      for (const id of ids) expect((await pause(id)).status).toBe(204);
      return ids;
    },

    /** How many more can be started, found out by starting them. */
    async free(): Promise<number> {
      let more = 0;
      while ((await create()).status === 201) more++;
      return more;
    },
  };
}

export function sandboxesIn(entries: ForkAnswer) {
  return entries.flatMap((entry) => ("sandbox" in entry ? [entry.sandbox] : []));
}

export function errorsIn(entries: ForkAnswer) {
  return entries.flatMap((entry) => ("error" in entry ? [entry.error] : []));
}
