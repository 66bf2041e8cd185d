/** Concurrent requests for a team's last leases: exactly as many succeed as there are leases, on both engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { SEED } from "../../base/testing/seed.ts";
import { Fault } from "../../contract/fault.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { bothEngines } from "../../store/testing/engines.ts";
import { ControlFixture, type Reply, seededRandom } from "../testing/control-fixture.ts";
import { callsOfTeam, sandboxesIn } from "../testing/team-calls.ts";

let fixture: ControlFixture;
const { limit, create, pause, resume, connect, wake, fork, running, paused, free } = callsOfTeam(() => fixture);
const counter = (replies: Reply[]) => Object.groupBy(replies, ({ status }) => status);

describe.each(bothEngines())("on $title", ({ missing, fresh }) => {
  describe.skipIf(missing)("a race for leases", () => {
    /** The most that ever ran or was being started. */
    let mostRunning: number;
    let starting: number;

    beforeEach(async () => {
      fixture = await ControlFixture.open(new FakeHost(), await fresh());
      [mostRunning, starting] = [0, 0];
    });
    afterEach(() => fixture[Symbol.asyncDispose]());

    /** Starts take a moment now and then, so that others come between. */
    function watch(random: () => number): void {
      const start = async () => {
        mostRunning = Math.max(mostRunning, fixture.host.running.length + ++starting);
        if (random() < 0.5) await Bun.sleep(random() * 4);
        // From here on the host counts it itself.
        queueMicrotask(() => void starting--);
      };
      fixture.host.beforeCreate = start;
      fixture.host.beforeResume = start;
    }

    test("of 50 creates: exactly 10 succeed and 40 are refused", async () => {
      await limit(10);
      watch(seededRandom(7));
      const replies = counter(await Promise.all(Array.from({ length: 50 }, () => create())));
      expect([replies[201]?.length, replies[429]?.length, mostRunning]).toEqual([10, 40, 10]);
      expect(fixture.host.running).toHaveLength(10);
    });

    test("of as many creates as there are leases: none is refused", async () => {
      await limit(30);
      watch(seededRandom(8));
      expect(counter(await Promise.all(Array.from({ length: 30 }, () => create())))[201]).toHaveLength(30);
    });

    test("of creates, resumes, connects, wakes and forks: exactly 12 succeed", async () => {
      const asleep = await paused(12);
      const [source = ""] = await running(1);
      await limit(13);
      watch(seededRandom(9));
      const calls = asleep.flatMap((id, nth) => [
        nth % 3 === 0
          ? resume(id)
          : nth % 3 === 1
            ? connect(id)
            : wake(id).then((woken) => ("refused" in woken ? 429 : 201)),
        create(),
      ]);
      const forks = [fork(source, 3), Bun.sleep(3).then(() => fork(source, 3))];
      const statuses = (await Promise.all(calls)).map((reply) => (typeof reply === "number" ? reply : reply.status));
      for (const { status, entries } of await Promise.all(forks)) {
        // The second may find the source being copied.
        if (status === 201) statuses.push(...entries.map((entry) => ("sandbox" in entry ? 201 : entry.error.code)));
        else expect(status).toBe(409);
      }
      expect(statuses.filter((status) => status === 201)).toHaveLength(12);
      expect(new Set(statuses)).toEqual(new Set([201, 429]));
      expect([fixture.host.running.length, mostRunning]).toEqual([13, 13]);
    });

    test("over a long time, with pauses and failures: never one too many, and no lease is lost", async () => {
      const random = seededRandom(SEED);
      const asleep = await paused(6);
      await limit(5);
      watch(random);
      const { beforeCreate, beforeResume } = fixture.host;
      const failing =
        <A>(start: (given: A) => Promise<void>) =>
        async (given: A) => {
          await start(given);
          if (random() < 0.2) throw new Fault(503, "planned failure");
        };
      fixture.host.beforeCreate = failing(beforeCreate);
      fixture.host.beforeResume = failing(beforeResume);
      const acts: ((id: string) => Promise<string[]>)[] = [
        async () => made(await create()),
        async (id) => made(await resume(id)),
        async (id) => made(await connect(id)),
        async (id) => sandboxesIn((await fork(id, 2)).entries).map(({ sandboxID }) => sandboxID),
        ...Array(4).fill(async (id: string) => made(await pause(id))),
      ];
      const starts = { made: 0, refused: 0 };
      const made = ({ status, body }: Reply): string[] => {
        if (status === 201) starts.made++;
        if (status === 429) starts.refused++;
        return status === 201 ? [body.sandboxID] : [];
      };
      const ids = new Set(asleep);
      const client = async () => {
        // A race with refusals alone, or with successes alone, would prove nothing.
        for (let nth = 0; nth < 60 || starts.made <= 20 || starts.refused <= 20; nth++) {
          const id = [...ids][Math.floor(random() * ids.size)] ?? "";
          for (const started of (await acts[Math.floor(random() * acts.length)]?.(id)) ?? []) ids.add(started);
        }
      };
      await Promise.all(Array.from({ length: 6 }, client));
      expect(mostRunning, `SANDLOT_TEST_SEED=${SEED}`).toBe(5);
      fixture.host.beforeCreate = fixture.host.beforeResume = async () => undefined;
      for (const { id } of await fixture.store.sandboxes.inState("running")) await pause(id);
      expect(await free()).toBe(5);
    });
  });
});
