/** The routes of template builds in three generations: request, file upload, start, status and log. */
import { Fault } from "../../contract/fault.ts";
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import {
  acceptedTemplate,
  buildDockerfile,
  buildInfo,
  buildLogs,
  buildLogsQuery,
  buildStatusQuery,
  requestBuildV2,
  requestBuildV3,
  requestedBuild,
  startBuild,
  uploadLink,
  uploadQuery,
} from "../../contract/management/template-build.ts";
import { planOf } from "../builds/build-plan.ts";
import { REQUEST_LARGE_BODY_MAX_BYTES } from "../limits.ts";
import { findOwnById } from "../templates/team-template.ts";
import { namesOf } from "../templates/template-visibility.ts";
import { asEntry, asInfo } from "../views/build-view.ts";
import { accepted, dockerfileBuild, findOwnBuild, findUsersBuild, refuseForeignTeam, sizeOf } from "./build-calls.ts";
import { type Route, route } from "./services.ts";

const TOO_MANY = [403, 409, 429];

export const buildRoutes: readonly Route[] = [
  route("POST /v3/templates", {
    auth: "key",
    summary: "Request a build of a new or existing template, by name and tags",
    body: { schema: requestBuildV3, required: true },
    success: [{ status: 202, description: "The build waits for its start", schema: requestedBuild }],
    errors: TOO_MANY,
    async handle({ caller, body }, { builds, store }) {
      const name = body.name || body.alias;
      if (!name) throw new Fault(400, "the build has no name; give name as [namespace/]alias[:tag]");
      refuseForeignTeam(caller.team, body.teamID);
      const tags = body.tags ?? [];
      const { template, build } = await builds.request({ ...caller, ...sizeOf(body), generation: 3, name, tags });
      const names = (await store.listedTemplates.byId(template.id))?.names ?? [];
      const answer = {
        templateID: template.id,
        buildID: build.id,
        public: template.public,
        names: namesOf(names),
        tags: build.tags,
        aliases: [...new Set(names.map(({ alias }) => alias))],
      };
      return { body: answer };
    },
  }),
  route("POST /v2/templates", {
    auth: "key",
    summary: "Request a build of a new or existing template, by alias",
    deprecated: true,
    body: { schema: requestBuildV2, required: true },
    success: [{ status: 202, description: "The build waits for its start", schema: acceptedTemplate }],
    errors: TOO_MANY,
    async handle({ caller, body }, { builds, store }) {
      if (body.alias === "") throw new Fault(400, "the build has no name; give alias");
      refuseForeignTeam(caller.team, body.teamID);
      const request = { ...caller, ...sizeOf(body), generation: 2 as const, name: body.alias, tags: [] };
      return { body: await accepted(store, await builds.request(request)) };
    },
  }),
  route("POST /templates", {
    auth: "bearer",
    summary: "Build a template from a Dockerfile",
    deprecated: true,
    body: { schema: buildDockerfile, required: true },
    success: [{ status: 202, description: "The build is started", schema: acceptedTemplate }],
    errors: TOO_MANY,
    async handle({ caller, body }, services) {
      return { body: await dockerfileBuild(services, caller.userId, body) };
    },
  }),
  route("POST /templates/{templateID}", {
    auth: "bearer",
    summary: "Rebuild a template from a Dockerfile",
    deprecated: true,
    body: { schema: buildDockerfile, required: true },
    success: [{ status: 202, description: "The build is started", schema: acceptedTemplate }],
    errors: TOO_MANY,
    async handle({ caller, body, params }, services) {
      return { body: await dockerfileBuild(services, caller.userId, body, params.templateID) };
    },
  }),
  route("GET /templates/{templateID}/files/{hash}", {
    auth: "key",
    summary: "Get the link to upload the files of a build",
    success: [{ status: 201, description: "The upload link, valid for an hour", schema: uploadLink }],
    async handle({ caller, params, base }, { store, uploads }) {
      const { id } = await findOwnById(store, caller.team, params.templateID);
      return { body: await uploads.link(caller.team.id, id, params.hash, base) };
    },
  }),
  route("PUT /templates/{templateID}/files/{hash}", {
    auth: "none",
    summary: "Upload the files of a build; the link needs no other authentication",
    query: uploadQuery,
    upload: "application/x-tar",
    success: [{ status: 204, description: "The upload is complete" }],
    errors: [403, 413, 429, 507],
    async handle({ params, query, upload }, { uploads }) {
      const link = { templateId: params.templateID, hash: params.hash, ...query };
      await uploads.receive(link, upload.content, upload.bytes);
    },
  }),
  route("POST /v2/templates/{templateID}/builds/{buildID}", {
    auth: "key",
    summary: "Start a build with its steps",
    body: { schema: startBuild, required: true, maxBytes: REQUEST_LARGE_BODY_MAX_BYTES },
    success: [{ status: 202, description: "The build runs or is queued" }],
    errors: [403],
    async handle({ caller, params, body }, { builds, store }) {
      const build = await findOwnBuild(store, caller.team, params, 404);
      // The server started it when it was requested.
      if (build.generation === 1) return undefined;
      await builds.start(caller.team, build, planOf(caller.team, body, builds.limits.stepsMax));
    },
    // After a refusal clients give up, and request another build the next time.
    async refused({ caller, params, fault }, { builds, store }) {
      const build = await findOwnBuild(store, caller.team, params, 404).catch(() => undefined);
      if (build !== undefined) await builds.unstarted.refused(build.id, fault);
    },
  }),
  route("POST /templates/{templateID}/builds/{buildID}", {
    auth: "bearer",
    summary: "Return 202 for a Dockerfile build, which has already started",
    deprecated: true,
    success: [{ status: 202, description: "The build started when it was requested" }],
    async handle({ caller, params }, { store }) {
      const build = await findUsersBuild(store, caller.userId, params);
      if (build.generation === 1) return undefined;
      throw new Fault(400, `build "${build.id}" has no Dockerfile; start it with POST /v2/templates/…/builds/…`);
    },
  }),
  route("GET /templates/{templateID}/builds/{buildID}/status", {
    auth: "key",
    summary: "Get the status of a build, with a page of its log",
    query: buildStatusQuery,
    success: [{ status: 200, description: "Status and log of the build", schema: buildInfo }],
    async handle({ caller, params, query }, { store }) {
      // The status is read first: the log of a finished build is complete.
      const build = await findOwnBuild(store, caller.team, params, 400);
      const page = { offset: query.logsOffset, limit: query.limit, level: query.level };
      const entries = build.status === "waiting" ? [] : await store.buildLogs.read(build.id, page);
      return { body: asInfo(build, entries) };
    },
  }),
  route("GET /templates/{templateID}/builds/{buildID}/logs", {
    auth: "key",
    summary: "Get the log of a build from a given time, in either direction",
    query: buildLogsQuery,
    success: [{ status: 200, description: "Log of the build", schema: buildLogs }],
    async handle({ caller, params, query }, { store, clock }) {
      const build = await findOwnBuild(store, caller.team, params, 400);
      const { direction, limit, level } = query;
      const oldest = clock.now() - ACTIVITY_KEPT_MS;
      const cursor = query.cursor ?? (direction === "forward" ? oldest : Number.MAX_SAFE_INTEGER);
      const entries = await store.buildLogs.readByTime(build.id, { cursor, direction, limit, level });
      return { body: { logs: entries.filter(({ at }) => at >= oldest).map(asEntry) } };
    },
  }),
];
