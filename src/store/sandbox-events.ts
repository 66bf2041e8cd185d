/** Events of sandboxes, one row each. */
import { type Statement, sqlPart } from "./engine.ts";
import { INTEGER, json, type Stored, Table, TEXT } from "./table.ts";

const events = new Table({
  id: TEXT,
  teamId: TEXT,
  sandboxId: TEXT,
  executionId: TEXT,
  templateId: TEXT,
  buildId: TEXT,
  /** `sandbox.lifecycle.…` */
  type: TEXT,
  at: INTEGER,
  /** Rises from event to event, even within a millisecond. */
  position: INTEGER,
  detail: json<Record<string, unknown>>(),
});
export type SandboxEvent = Stored<typeof events>;

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
  const { first, all, changed, count } = events.over(sql);
  return {
    /** False: it is already stored. */
    add: (event: SandboxEvent) => changed`INSERT INTO sandbox_events ${events.values(event)}
        ON CONFLICT (id) DO NOTHING`,
    byId: (id: string) => first`SELECT * FROM sandbox_events WHERE id = ${id}`,

    async list(filter: EventFilter): Promise<SandboxEvent[]> {
      const { teamId, since, offset, limit } = filter;
      const sandboxId = filter.sandboxId ?? "";
      // Types contain no comma.
      const types = filter.types.length === 0 ? "" : `,${filter.types.join(",")},`;
      const order = filter.ascending ? sqlPart`position ASC, id ASC` : sqlPart`position DESC, id DESC`;
      return all`SELECT * FROM sandbox_events WHERE team_id = ${teamId} AND at >= ${since}
        AND (${sandboxId} = '' OR sandbox_id = ${sandboxId})
        AND (${types} = '' OR ${types} LIKE '%,' || type || ',%')
        ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`;
    },

    removeBefore: (time: number, limit: number) => count`DELETE FROM sandbox_events WHERE id IN
        (SELECT id FROM sandbox_events WHERE at < ${time} ORDER BY at LIMIT ${limit})`,
  };
}
