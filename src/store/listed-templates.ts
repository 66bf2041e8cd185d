/** Templates for lists: with names, creator, and the builds that represent them. */
import { type Build, builds } from "./builds.ts";
import { type Row, type SqlPart, type Statement, sqlPart, text } from "./engine.ts";
import { type Stored, Table, TEXT } from "./table.ts";
import { type Template, templates } from "./templates.ts";

export interface ListedTemplate {
  template: Template;
  /** Without a known creator, the first user. */
  creator: { id: string; email: string } | null;
  names: TemplateName[];
  /** The build that a sandbox would start from: the default, else the last ready one, else the last requested one. */
  build: Build | undefined;
  /** The last build requested as default, else the last one requested. */
  newest: Build | undefined;
}

const names = new Table({ namespace: TEXT, alias: TEXT });
export type TemplateName = Stored<typeof names>;

export interface TemplatePosition {
  createdAt: number;
  id: string;
}

export function listedTemplatesIn(sql: Statement) {
  const buildRows = builds.over(sql);
  async function completed(rows: readonly Row[]): Promise<ListedTemplate[]> {
    if (rows.length === 0) return [];
    const found = rows.map((row) => templates.read(row));
    const these = oneOf(found.map(({ id }) => id));
    const { rows: aliases } = await sql`SELECT template_id, namespace, alias FROM template_aliases
      WHERE template_id IN (${these}) ORDER BY position, alias`;
    const current = await buildRows.all`SELECT * FROM builds WHERE template_id IN (${these}) AND number = COALESCE(
      (SELECT tagged.number FROM template_tags JOIN builds tagged ON tagged.id = template_tags.build_id
        WHERE template_tags.template_id = builds.template_id AND tag = 'default'),
      (SELECT MAX(number) FROM builds other WHERE other.template_id = builds.template_id AND status = 'ready'),
      (SELECT MAX(number) FROM builds other WHERE other.template_id = builds.template_id))`;
    const newest = await buildRows.all`SELECT * FROM builds WHERE template_id IN (${these}) AND number = COALESCE(
      (SELECT MAX(number) FROM builds other WHERE other.template_id = builds.template_id
        AND tags LIKE ${'%"default"%'}),
      (SELECT MAX(number) FROM builds other WHERE other.template_id = builds.template_id))`;
    return found.map((template, nth) => ({
      template,
      creator: readCreator(rows[nth]),
      names: aliases.filter((row) => row.template_id === template.id).map((row) => names.read(row)),
      build: current.find(({ templateId }) => templateId === template.id),
      newest: newest.find(({ templateId }) => templateId === template.id),
    }));
  }

  return {
    async byId(id: string): Promise<ListedTemplate | undefined> {
      const { rows } = await sql`SELECT ${shown()} WHERE templates.id = ${id} AND templates.deleted_at IS NULL`;
      return (await completed(rows))[0];
    },

    /**
     * Templates of a team, and the built-in ones named here, in the order of creation or its exact reverse. Templates
     * that only ever had snapshots are left out.
     */
    async page(
      { teamId, builtIn }: { teamId: string; builtIn: readonly string[] },
      order: "asc" | "desc",
      after: TemplatePosition | undefined,
      limit: number,
    ): Promise<ListedTemplate[]> {
      const { createdAt, id } = after ?? { createdAt: order === "asc" ? -1 : Number.MAX_SAFE_INTEGER, id: "" };
      const beyond =
        order === "desc"
          ? sqlPart`templates.created_at <= ${createdAt} AND (templates.created_at < ${createdAt} OR templates.id > ${id})
              ORDER BY templates.created_at DESC, templates.id ASC`
          : sqlPart`templates.created_at >= ${createdAt} AND (templates.created_at > ${createdAt} OR templates.id < ${id})
              ORDER BY templates.created_at ASC, templates.id DESC`;
      const { rows } = await sql`SELECT ${shown()} WHERE ${listable(teamId, builtIn)} AND ${beyond} LIMIT ${limit}`;
      return completed(rows);
    },
  };
}

function shown(): SqlPart {
  return sqlPart`templates.*, users.id AS creator_id, users.email AS creator_email FROM templates
    LEFT JOIN users ON users.id =
      COALESCE(templates.created_by, (SELECT id FROM users ORDER BY created_at, id LIMIT 1))`;
}

function listable(teamId: string, builtIn: readonly string[]): SqlPart {
  const own = sqlPart`templates.team_id = ${teamId} AND EXISTS
    (SELECT 1 FROM builds WHERE builds.template_id = templates.id AND builds.source_sandbox IS NULL)`;
  const all =
    builtIn.length === 0 ? own : sqlPart`${own} OR (templates.team_id IS NULL AND templates.id IN (${oneOf(builtIn)}))`;
  return sqlPart`templates.deleted_at IS NULL AND (${all})`;
}

function oneOf(values: readonly string[]): SqlPart {
  return values.map((value) => sqlPart`${value}`).reduce((all, value) => sqlPart`${all}, ${value}`);
}

function readCreator(row: Row | undefined): ListedTemplate["creator"] {
  if (row === undefined || row.creator_id === null) return null;
  return { id: text(row.creator_id), email: text(row.creator_email) };
}
