/** Events of sandboxes, one row each. */
import { integer, type Row, type Statement, text } from "./engine.ts";

export interface SandboxEvent {
  id: string;
  teamId: string;
  sandboxId: string;
  executionId: string;
  templateId: string;
  buildId: string;
  /** `sandbox.lifecycle.…` */
  type: string;
  at: number;
  /** Rises from event to event, even within a millisecond. */
  position: number;
  detail: Record<string, unknown>;
}

export interface EventFilter {
  teamId: string;
  /** Undefined: all of the team. */
  sandboxId: string | undefined;
  /** Empty: all. */
  types: readonly string[];
  since: number;
  ascending: boolean;
  offset: number;
  limit: number;
}

export function sandboxEventsIn(sql: Statement) {
  return {
    /** False: it is already stored. */
    async add(event: SandboxEvent): Promise<boolean> {
      const { count } =
        await sql`INSERT INTO sandbox_events (id, team_id, sandbox_id, execution_id, template_id, build_id, type, at, position,
          detail)
        VALUES (${event.id}, ${event.teamId}, ${event.sandboxId}, ${event.executionId}, ${event.templateId},
          ${event.buildId}, ${event.type}, ${event.at}, ${event.position}, ${JSON.stringify(event.detail)})
        ON CONFLICT (id) DO NOTHING`;
      return count > 0;
    },

    async byId(id: string): Promise<SandboxEvent | undefined> {
      const { rows } = await sql`SELECT * FROM sandbox_events WHERE id = ${id}`;
      return rows[0] && readEvent(rows[0]);
    },

    async list(filter: EventFilter): Promise<SandboxEvent[]> {
      const { teamId, since, offset, limit } = filter;
      const sandboxId = filter.sandboxId ?? "";
      // Types contain no comma.
      const types = filter.types.length === 0 ? "" : `,${filter.types.join(",")},`;
      const { rows } = filter.ascending
        ? await sql`SELECT * FROM sandbox_events WHERE team_id = ${teamId} AND at >= ${since}
            AND (${sandboxId} = '' OR sandbox_id = ${sandboxId})
            AND (${types} = '' OR ${types} LIKE '%,' || type || ',%')
            ORDER BY position ASC, id ASC LIMIT ${limit} OFFSET ${offset}`
        : await sql`SELECT * FROM sandbox_events WHERE team_id = ${teamId} AND at >= ${since}
            AND (${sandboxId} = '' OR sandbox_id = ${sandboxId})
            AND (${types} = '' OR ${types} LIKE '%,' || type || ',%')
            ORDER BY position DESC, id DESC LIMIT ${limit} OFFSET ${offset}`;
      return rows.map(readEvent);
    },

    async removeBefore(time: number, limit: number): Promise<number> {
      const { count } = await sql`DELETE FROM sandbox_events WHERE id IN
        (SELECT id FROM sandbox_events WHERE at < ${time} ORDER BY at LIMIT ${limit})`;
      return count;
    },
  };
}

function readEvent(row: Row): SandboxEvent {
  return {
    id: text(row.id),
    teamId: text(row.team_id),
    sandboxId: text(row.sandbox_id),
    executionId: text(row.execution_id),
    templateId: text(row.template_id),
    buildId: text(row.build_id),
    type: text(row.type),
    at: integer(row.at),
    position: integer(row.position),
    detail: JSON.parse(text(row.detail)),
  };
}
