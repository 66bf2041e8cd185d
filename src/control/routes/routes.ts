/**
 * Every route of the management API. A route declares what it takes and returns, calls the services, and shapes
 * the response. Routes never change a sandbox themselves: the lifecycle does.
 */
import { z } from "zod";
import { health } from "../../contract/management/health.ts";
import { listedTeam } from "../../contract/management/team.ts";
import { createApiKeyIn } from "../access/keys.ts";
import { notReady } from "../http/caller.ts";
import { openApiDocument } from "../http/openapi.ts";
import { adminRoutes } from "./admin-routes.ts";
import { buildRoutes } from "./build-routes.ts";
import { eventRoutes } from "./event-routes.ts";
import { keyRoutes } from "./key-routes.ts";
import { logRoutes } from "./log-routes.ts";
import { metricRoutes } from "./metric-routes.ts";
import { nodeRoutes } from "./node-routes.ts";
import { sandboxRoutes } from "./sandbox-routes.ts";
import { secretRoutes } from "./secret-routes.ts";
import { type Route, route } from "./services.ts";
import { snapshotRoutes } from "./snapshot-routes.ts";
import { templateRoutes } from "./template-routes.ts";
import { volumeContentRoutes } from "./volume-content-routes.ts";
import { volumeRoutes } from "./volume-routes.ts";
import { webhookRoutes } from "./webhook-routes.ts";

/** Generated at the first request; the routes do not change. */
let document: ReturnType<typeof openApiDocument> | undefined;

const serverRoutes: readonly Route[] = [
  route("GET /health", {
    auth: "none",
    summary: "Check that the server accepts requests",
    success: [{ status: 200, description: "The server accepts requests", schema: health }],
    errors: [503],
    async handle(_call, { isReady }) {
      if (!isReady()) throw notReady();
      return { body: { status: "ok" } };
    },
  }),
  route("GET /openapi.json", {
    auth: "none",
    summary: "This interface as an OpenAPI 3.1 document",
    success: [{ status: 200, description: "The document", schema: z.looseObject({ openapi: z.string() }) }],
    async handle() {
      document ??= openApiDocument(routes);
      return { body: document };
    },
  }),
  route("GET /teams", {
    auth: "login",
    summary: "List the user's teams, each with a new API key",
    success: [{ status: 200, description: "The teams", schema: z.array(listedTeam) }],
    errors: [429],
    async handle({ caller, origin }, { store, ids, clock }) {
      if ("apiKey" in caller) {
        const { team, apiKey } = caller;
        return { body: [{ teamID: team.id, name: team.name, apiKey, isDefault: true }] };
      }
      const { userId } = caller;
      // In one transaction, so that a failure leaves no key behind whose secret was never shown.
      const body = await store.transaction(async (tables) => {
        const listed: z.infer<typeof listedTeam>[] = [];
        for (const { team, isDefault } of await tables.people.teamsOf(userId)) {
          const key = { teamId: team.id, name: "made by a login", createdBy: userId };
          const { secret } = await createApiKeyIn({ store: tables, ids, clock, origin }, key);
          listed.push({ teamID: team.id, name: team.name, apiKey: secret, isDefault });
        }
        return listed;
      });
      return { body };
    },
  }),
];

export const routes: readonly Route[] = [
  ...serverRoutes,
  ...keyRoutes,
  ...metricRoutes,
  ...sandboxRoutes,
  ...snapshotRoutes,
  ...templateRoutes,
  ...buildRoutes,
  ...logRoutes,
  ...eventRoutes,
  ...webhookRoutes,
  ...volumeRoutes,
  ...volumeContentRoutes,
  ...secretRoutes,
  ...nodeRoutes,
  ...adminRoutes,
];
