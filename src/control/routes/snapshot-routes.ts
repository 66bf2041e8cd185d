/** The routes of snapshots and forks. */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { type ForkAnswer, forkAnswer, forkRequest } from "../../contract/management/fork.ts";
import { TIMEOUT_DEFAULT_V1_SECONDS } from "../../contract/management/limits.ts";
import { createSnapshot, listSnapshotsQuery, snapshot } from "../../contract/management/snapshot.ts";
import { secondsOf } from "../lifecycle/timers/run-length.ts";
import { makeSnapshot } from "../templates/snapshots.ts";
import { NEXT_TOKEN, withToken } from "../views/page-token.ts";
import { asCreated } from "../views/sandbox-view.ts";
import { listSnapshots } from "../views/snapshot-list.ts";
import { sandboxIdFrom } from "./sandbox-path.ts";
import { type Route, route } from "./services.ts";

export const snapshotRoutes: readonly Route[] = [
  route("POST /sandboxes/{sandboxID}/fork", {
    auth: "key",
    summary: "Fork a running sandbox into copies, with its memory",
    body: { schema: forkRequest, required: false },
    success: [{ status: 201, description: "One entry for each copy: the sandbox, or the error", schema: forkAnswer }],
    errors: [403, 409, 422, 503, 507],
    async handle({ caller, params, body, headers }, { lifecycle }) {
      refuseIdempotencyKey(headers);
      const id = sandboxIdFrom(params.sandboxID);
      const seconds = secondsOf(caller.team, body.timeout, TIMEOUT_DEFAULT_V1_SECONDS);
      const copies = await lifecycle.fork(caller.team, id, body.count ?? 1, seconds);
      const entries: ForkAnswer = copies.map((copy) =>
        copy instanceof Fault ? { error: copy.toBody() } : { sandbox: asCreated(copy) },
      );
      return { body: entries };
    },
  }),
  route("POST /sandboxes/{sandboxID}/snapshots", {
    auth: "key",
    summary: "Create a snapshot of a running sandbox, usable as a template",
    body: { schema: createSnapshot, required: true },
    success: [{ status: 201, description: "The snapshot", schema: snapshot }],
    errors: [409, 422, 503, 507],
    async handle({ caller, params, body, headers }, services) {
      refuseIdempotencyKey(headers);
      const id = sandboxIdFrom(params.sandboxID);
      const request = { name: body.name ?? undefined, memory: body.memory ?? true };
      return { body: await makeSnapshot(services, caller, id, request) };
    },
  }),
  route("GET /snapshots", {
    auth: "key",
    summary: "List the team's snapshots, newest first",
    query: listSnapshotsQuery,
    success: [{ status: 200, description: "One page", schema: z.array(snapshot), headers: NEXT_TOKEN }],
    async handle({ caller, query }, { store }) {
      const { snapshots, nextToken } = await listSnapshots(store, caller.team, query);
      return { body: snapshots, headers: withToken(nextToken) };
    },
  }),
];

/** For calls that would make another copy when they are repeated. */
function refuseIdempotencyKey(headers: Headers): void {
  if (headers.has("idempotency-key")) {
    throw new Fault(400, "this endpoint does not support the header Idempotency-Key; leave it out");
  }
}
