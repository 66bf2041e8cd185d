/** The routes of sandboxes. */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import {
  type CreateSandboxV1,
  type CreateSandboxV2,
  createSandboxV1,
  createSandboxV2,
} from "../../contract/management/create-sandbox.ts";
import {
  REFRESH_DEFAULT_SECONDS,
  TIMEOUT_DEFAULT_V1_SECONDS,
  TIMEOUT_DEFAULT_V2_SECONDS,
} from "../../contract/management/limits.ts";
import { networkUpdate } from "../../contract/management/network.ts";
import { createdSandbox, listedSandbox, sandboxDetail } from "../../contract/management/sandbox.ts";
import {
  connectSandboxV1,
  connectSandboxV2,
  listSandboxesV1Query,
  listSandboxesV2Query,
  pauseSandbox,
  refreshRequest,
  resumeSandbox,
  setTimeoutRequest,
} from "../../contract/management/sandbox-requests.ts";
import type { Team } from "../../store/people.ts";
import type { RouteResult } from "../http/route.ts";
import type { CreateKey, Repeatable } from "../lifecycle/idempotent-creates.ts";
import { secondsOf } from "../lifecycle/timers/run-length.ts";
import { REQUEST_LARGE_BODY_MAX_BYTES } from "../limits.ts";
import { findStartable } from "../templates/template-lookup.ts";
import { NEXT_TOKEN, withToken } from "../views/page-token.ts";
import { listPage, listRunning } from "../views/sandbox-list.ts";
import { asCreated, asDetail, asListed } from "../views/sandbox-view.ts";
import { egressIn, identityTokensIn, networkIn, requireTokens } from "./network-request.ts";
import { sandboxIdFrom } from "./sandbox-path.ts";
import { type Route, route, type Services } from "./services.ts";

const created = [
  {
    status: 201,
    description: "The sandbox runs",
    schema: createdSandbox,
    headers: { "Idempotent-Replayed": "`true`: an earlier request with this Idempotency-Key created it" },
  },
];
const REPEATABLE = { "Idempotency-Key": "Returns the same sandbox for a repetition of the request within 24 hours" };
const connected = [
  { status: 200, description: "The sandbox was already running", schema: createdSandbox },
  { status: 201, description: "The sandbox was paused and has been resumed", schema: createdSandbox },
];

export const sandboxRoutes: readonly Route[] = [
  route("POST /sandboxes", {
    auth: "key",
    summary: "Create a sandbox from a template",
    deprecated: true,
    body: { schema: createSandboxV1, required: true, maxBytes: REQUEST_LARGE_BODY_MAX_BYTES },
    headers: REPEATABLE,
    success: created,
    errors: [403, 404, 409, 422, 429, 503, 507],
    handle: ({ caller, body, headers }, services) =>
      create(services, caller.team, body, repeatable("v1", body, headers), {
        secure: body.secure ?? false,
        timeoutSeconds: secondsOf(caller.team, body.timeout, TIMEOUT_DEFAULT_V1_SECONDS),
      }),
  }),
  route("POST /v2/sandboxes", {
    auth: "key",
    summary: "Create a sandbox from a template; its runtime always requires a token",
    body: { schema: createSandboxV2, required: true, maxBytes: REQUEST_LARGE_BODY_MAX_BYTES },
    headers: REPEATABLE,
    success: created,
    errors: [403, 404, 409, 422, 429, 503, 507],
    handle: ({ caller, body, headers }, services) =>
      create(services, caller.team, body, repeatable("v2", body, headers), {
        secure: true,
        timeoutSeconds: secondsOf(caller.team, body.timeout, TIMEOUT_DEFAULT_V2_SECONDS),
      }),
  }),
  route("GET /sandboxes", {
    auth: "key",
    summary: "List the team's running sandboxes, newest first",
    deprecated: true,
    query: listSandboxesV1Query,
    success: [{ status: 200, description: "All running sandboxes", schema: z.array(listedSandbox) }],
    async handle({ caller, query }, { store, clock }) {
      const now = clock.now();
      const sandboxes = await listRunning(store, caller.team, query.metadata, now);
      return { body: sandboxes.map((sandbox) => asListed(sandbox, now)) };
    },
  }),
  route("GET /v2/sandboxes", {
    auth: "key",
    summary: "List the team's sandboxes page by page",
    query: listSandboxesV2Query,
    success: [
      {
        status: 200,
        description: "One page",
        schema: z.array(listedSandbox),
        headers: {
          ...NEXT_TOKEN,
          "X-Total-Running": "Running sandboxes that match, on all pages; absent when running ones were not asked for",
        },
      },
    ],
    async handle({ caller, query }, { store, clock }) {
      const now = clock.now();
      const page = await listPage(store, caller.team, query, now);
      const headers = withToken(page.nextToken);
      if (page.totalRunning !== undefined) headers["X-Total-Running"] = String(page.totalRunning);
      return { body: page.sandboxes.map((sandbox) => asListed(sandbox, now)), headers };
    },
  }),
  route("GET /sandboxes/{sandboxID}", {
    auth: "key",
    summary: "Get a sandbox",
    success: [{ status: 200, description: "The sandbox", schema: sandboxDetail }],
    async handle({ caller, params }, { lifecycle, clock }) {
      return { body: asDetail(await lifecycle.read(caller.team, idIn(params)), clock.now()) };
    },
  }),
  route("DELETE /sandboxes/{sandboxID}", {
    auth: "key",
    summary: "Kill a sandbox, running or paused",
    success: [{ status: 204, description: "The sandbox is gone or being killed" }],
    async handle({ caller, params }, { lifecycle }) {
      await lifecycle.kill(caller.team, idIn(params));
    },
  }),
  route("POST /sandboxes/{sandboxID}/connect", {
    auth: "key",
    summary: "Connect to a sandbox, resume it if paused, set its end to timeout seconds from now",
    deprecated: true,
    body: { schema: connectSandboxV1, required: true },
    success: connected,
    errors: [403, 409, 422, 429, 503, 507],
    // The official clients promise that a connect never shortens the timeout.
    handle: ({ caller, params, body, headers }, services) =>
      connect(services, caller.team, params, { ...body, onlyExtend: isOfficialClient(headers) }),
  }),
  route("POST /v2/sandboxes/{sandboxID}/connect", {
    auth: "key",
    summary: "Connect to a sandbox, resume it if paused; its end can only move to a later time",
    body: { schema: connectSandboxV2, required: false },
    success: connected,
    errors: [403, 409, 422, 429, 503, 507],
    handle: ({ caller, params, body }, services) =>
      connect(services, caller.team, params, { ...body, onlyExtend: true }),
  }),
  route("POST /sandboxes/{sandboxID}/pause", {
    auth: "key",
    summary: "Pause a sandbox, by default with its memory",
    body: { schema: pauseSandbox, required: false },
    success: [{ status: 204, description: "The sandbox is paused and its checkpoint is durable" }],
    errors: [409, 422, 503, 507],
    async handle({ caller, params, body }, { lifecycle }) {
      await lifecycle.pause(caller.team, idIn(params), body.memory ?? true);
    },
  }),
  route("POST /sandboxes/{sandboxID}/resume", {
    auth: "key",
    summary: "Resume a paused sandbox; the response has a new token",
    deprecated: true,
    body: { schema: resumeSandbox, required: false },
    success: [{ status: 201, description: "The sandbox runs again", schema: createdSandbox }],
    errors: [403, 409, 422, 429, 503, 507],
    async handle({ caller, params, body }, { lifecycle }) {
      const sandbox = await lifecycle.resume(caller.team, idIn(params), {
        seconds: secondsOf(caller.team, body.timeout, TIMEOUT_DEFAULT_V1_SECONDS),
        memory: body.memory ?? true,
        autoPause: body.autoPause ?? undefined,
      });
      return { body: asCreated(sandbox) };
    },
  }),
  route("POST /sandboxes/{sandboxID}/timeout", {
    auth: "key",
    summary: "Set the end of a sandbox to timeout seconds from now",
    body: { schema: setTimeoutRequest, required: true },
    success: [{ status: 204, description: "Done" }],
    errors: [409],
    async handle({ caller, params, body }, { lifecycle }) {
      await lifecycle.setEnd(caller.team, idIn(params), body.timeout);
    },
  }),
  route("POST /sandboxes/{sandboxID}/refreshes", {
    auth: "key",
    summary: "Keep a sandbox alive for at least duration seconds from now",
    body: { schema: refreshRequest, required: false },
    success: [{ status: 204, description: "Done" }],
    errors: [409],
    async handle({ caller, params, body }, { lifecycle }) {
      await lifecycle.extendEnd(caller.team, idIn(params), body.duration ?? REFRESH_DEFAULT_SECONDS);
    },
  }),
  route("PUT /sandboxes/{sandboxID}/network", {
    auth: "key",
    summary: "Replace the outgoing network rules of a running sandbox",
    body: { schema: networkUpdate, required: true },
    success: [{ status: 204, description: "The new rules are in force, also for open connections" }],
    errors: [409, 422, 429, 503, 507],
    async handle({ caller, params, body }, { lifecycle }) {
      const [id, egress] = [idIn(params), egressIn(body)];
      if (egress.rules !== undefined) {
        const { identityTokens } = await lifecycle.read(caller.team, id);
        requireTokens(egress, identityTokens, "rules");
      }
      await lifecycle.setEgress(caller.team, id, { egress, allowInternetAccess: body.allow_internet_access ?? null });
    },
  }),
];

async function create(
  { store, lifecycle, volumes, identity, unbuilt, idempotentCreates }: Services,
  team: Team,
  body: CreateSandboxV1 | CreateSandboxV2,
  repeated: Repeatable | undefined,
  decided: { secure: boolean; timeoutSeconds: number },
): Promise<RouteResult> {
  requireConsistentAutoPause(body);
  const [network, identityTokens] = [networkIn(body.network ?? {}), identityTokensIn(body.iam)];
  requireTokens(network, identityTokens, "network.rules");
  if (Object.keys(identityTokens).length > 0) await identity.requireReady();
  const createNew = async (key?: CreateKey) => {
    const options = {
      ...decided,
      metadata: body.metadata ?? {},
      envVars: body.envVars ?? {},
      allowInternetAccess: body.allow_internet_access ?? null,
      network,
      mcp: body.mcp ?? null,
      identityTokens,
      autoPause: body.autoPause ?? false,
      autoPauseMemory: body.autoPauseMemory ?? true,
      autoResume: body.autoResume?.enabled ?? false,
      volumeMounts: await volumes.mounts(team, body.volumeMounts ?? []),
    };
    return lifecycle.create(team, await findStartable(store, team, body.templateID, unbuilt), options, key);
  };
  if (repeated === undefined) return { status: 201, body: asCreated(await createNew()) };
  const { sandbox, isReplay } = await idempotentCreates.run(team, repeated, createNew);
  return { status: 201, body: asCreated(sandbox), ...(isReplay && { headers: { "Idempotent-Replayed": "true" } }) };
}

/** The two generations differ in what they do with the same body. */
function repeatable(generation: "v1" | "v2", body: unknown, headers: Headers): Repeatable | undefined {
  const key = headers.get("idempotency-key");
  return key === null ? undefined : { key, request: [generation, body] };
}

/**
 * autoPauseMemory: false needs autoPause, or it would have no effect. It excludes autoResume: traffic must not boot a
 * sandbox unexpectedly.
 */
function requireConsistentAutoPause({
  autoPause,
  autoPauseMemory,
  autoResume,
}: CreateSandboxV1 | CreateSandboxV2): void {
  if (autoPauseMemory !== false) return;
  if (!autoPause) throw new Fault(400, "autoPauseMemory: false has no effect without autoPause; set autoPause to true");
  if (autoResume?.enabled) {
    throw new Fault(400, "autoPauseMemory: false cannot be combined with autoResume; leave out one of them");
  }
}

async function connect(
  { lifecycle }: Services,
  team: Team,
  params: { sandboxID: string },
  options: { timeout?: number | null | undefined; memory?: boolean | null | undefined; onlyExtend: boolean },
): Promise<RouteResult> {
  const { sandbox, resumed } = await lifecycle.connect(team, idIn(params), {
    seconds: secondsOf(team, options.timeout, TIMEOUT_DEFAULT_V2_SECONDS),
    memory: options.memory ?? true,
    onlyExtend: options.onlyExtend,
  });
  return { status: resumed ? 201 : 200, body: asCreated(sandbox) };
}

/** Any client can claim to be an official one, so nothing may depend on it that does harm when the claim is false. */
function isOfficialClient(headers: Headers): boolean {
  return headers.get("publisher") === "e2b" && (headers.get("package_version") ?? "").trim() !== "";
}

function idIn(params: { sandboxID: string }): string {
  return sandboxIdFrom(params.sandboxID);
}
