/** The routes of existing templates: lists, names, tags, visibility, deletion. */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import {
  assignedTags,
  assignTags as assignTagsRequest,
  listTemplatesQuery,
  pageBuildsQuery,
  pageTemplatesQuery,
  removeTags as removeTagsRequest,
  template,
  templateAlias,
  templateTag,
  templateWithBuilds,
  updatedTemplate,
  updateTemplate,
} from "../../contract/management/template.ts";
import { findOwnToRead } from "../templates/team-template.ts";
import { findBuild } from "../templates/template-lookup.ts";
import { assignTags, removeTags } from "../templates/template-tags.ts";
import { setVisibility } from "../templates/template-visibility.ts";
import { NEXT_TOKEN, withToken } from "../views/page-token.ts";
import { listTemplates, pageTemplates, readTemplate } from "../views/template-list.ts";
import { asTag } from "../views/template-view.ts";
import { type Route, route } from "./services.ts";

export const templateRoutes: readonly Route[] = [
  route("GET /templates", {
    auth: "key",
    summary: "List the team's templates and the built-in ones, oldest first",
    deprecated: true,
    query: listTemplatesQuery,
    success: [{ status: 200, description: "All templates, without snapshots", schema: z.array(template) }],
    async handle({ caller, query }, services) {
      return { body: await listTemplates(services, caller.team, query.teamID) };
    },
  }),
  route("GET /v2/templates", {
    auth: "key",
    summary: "List the team's and the built-in templates page by page, newest first",
    query: pageTemplatesQuery,
    success: [
      { status: 200, description: "One page, without snapshots", schema: z.array(template), headers: NEXT_TOKEN },
    ],
    async handle({ caller, query }, services) {
      const { shown, nextToken } = await pageTemplates(services, caller.team, query);
      return { body: shown, headers: withToken(nextToken) };
    },
  }),
  route("POST /templates/tags", {
    auth: "key",
    summary: "Assign tags to a build",
    body: { schema: assignTagsRequest, required: true },
    success: [{ status: 201, description: "The tags are assigned to the build", schema: assignedTags }],
    errors: [403],
    async handle({ caller, body }, services) {
      return { body: await assignTags(services, caller.team, body.target, body.tags) };
    },
  }),
  route("DELETE /templates/tags", {
    auth: "key",
    summary: "Remove tags",
    body: { schema: removeTagsRequest, required: true },
    success: [{ status: 204, description: "The template has none of these tags" }],
    errors: [403],
    async handle({ caller, body }, services) {
      await removeTags(services, caller.team, body.name, body.tags);
    },
  }),
  route("GET /templates/aliases/{alias}", {
    auth: "key",
    summary: "Check whether the team has a template with this name",
    success: [{ status: 200, description: "The template", schema: templateAlias }],
    errors: [403],
    async handle({ caller, params }, { store }) {
      const written = params.alias;
      const { template, reference } = await findOwnToRead(store, caller.team, written);
      const { tag } = reference;
      if (tag !== undefined && (await findBuild(store, template, tag)) === undefined) {
        throw new Fault(404, `template "${written}" has no finished build with the tag "${tag}"`);
      }
      return { body: { templateID: template.id, public: template.public } };
    },
  }),
  route("GET /templates/{templateID}/tags", {
    auth: "key",
    summary: "List a template's tags",
    success: [{ status: 200, description: "Each tag with its build", schema: z.array(templateTag) }],
    errors: [403],
    async handle({ caller, params }, { store }) {
      const { template } = await findOwnToRead(store, caller.team, params.templateID);
      return { body: (await store.builds.tagsOf(template.id)).map(asTag) };
    },
  }),
  route("GET /templates/{templateID}", {
    auth: "key",
    summary: "Get a template and its builds, newest first",
    query: pageBuildsQuery,
    success: [
      { status: 200, description: "The template, one page of builds", schema: templateWithBuilds, headers: NEXT_TOKEN },
    ],
    async handle({ caller, params, query }, services) {
      const { shown, nextToken } = await readTemplate(services, caller.team, params.templateID, query);
      return { body: shown, headers: withToken(nextToken) };
    },
  }),
  route("PATCH /templates/{templateID}", {
    auth: "key",
    summary: "Publish a template under its bare names, or unpublish it",
    deprecated: true,
    body: { schema: updateTemplate, required: false },
    success: [{ status: 200, description: "Done", schema: z.null() }],
    errors: [403, 409],
    async handle({ caller, params, body }, services) {
      const change = { isPublic: body.public ?? undefined, claimsNames: true };
      await setVisibility(services, caller.team, params.templateID, change);
      return { body: null };
    },
  }),
  route("PATCH /v2/templates/{templateID}", {
    auth: "key",
    summary: "Publish or unpublish a template",
    body: { schema: updateTemplate, required: false },
    success: [{ status: 200, description: "The names of the template", schema: updatedTemplate }],
    errors: [403],
    async handle({ caller, params, body }, services) {
      const change = { isPublic: body.public ?? undefined, claimsNames: false };
      return { body: { names: await setVisibility(services, caller.team, params.templateID, change) } };
    },
  }),
  route("DELETE /templates/{templateID}", {
    auth: "key",
    summary: "Delete a template or snapshot that no sandbox of the team uses",
    success: [{ status: 204, description: "Deleted; its names are free" }],
    errors: [403],
    async handle({ caller, params }, { deleteTemplate }) {
      await deleteTemplate(caller.team, params.templateID);
    },
  }),
];
