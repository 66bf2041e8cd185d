/** Servers that use this database. Their leases run on the database's clock, which is the same for all of them. */
import type { SqlPart, Statement } from "./engine.ts";
import { INTEGER, orNull, type Stored, Table, TEXT } from "./table.ts";

const nodes = new Table({
  /** Of the data folder. */
  identity: TEXT,
  name: TEXT,
  /** Of the machine's kernel since it started. */
  boot: TEXT,
  /** Counts the starts of its server. */
  epoch: INTEGER,
  /** Until then no other server may take its place. */
  leaseUntil: INTEGER,
  version: TEXT,
  /** For other nodes. */
  address: orNull(TEXT),
});

export type Node = Stored<typeof nodes>;

export function nodesIn(sql: Statement, clock: SqlPart) {
  const { all, execute, changed, number } = nodes.over(sql);
  return {
    /** Until the transaction ends, no other one gets past this. */
    lock: () => execute`INSERT INTO server_state (name, value, changed_at) VALUES ('nodes', '', 0)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value`,

    now: () => number`SELECT ${clock}`,

    all: () => all`SELECT ${nodes.names} FROM nodes ORDER BY name`,

    add: (node: Node) => execute`INSERT INTO nodes ${nodes.values(node)}`,

    remove: (identity: string) => execute`DELETE FROM nodes WHERE identity = ${identity}`,

    /** False: another server has taken this place. */
    renew: (identity: string, epoch: number, leaseMs: number) => changed`UPDATE nodes
        SET lease_until = ${clock} + ${leaseMs} WHERE identity = ${identity} AND epoch = ${epoch}`,
  };
}
