/** Users and the teams they belong to. */
import { integer, type Row, type Statement, text } from "./engine.ts";
import { INTEGER, type Stored, Table, TEXT } from "./table.ts";
import { readLimits, type TeamLimits } from "./team-limits.ts";

const users = new Table({ id: TEXT, email: TEXT, createdAt: INTEGER });
type User = Stored<typeof users>;

export const teams = new Table({
  id: TEXT,
  name: TEXT,
  /** The namespace of the team's templates. */
  slug: TEXT,
  limits: {
    read: (stored: unknown, row: Row) => readLimits(text(stored), text(row.slug)),
    write: (limits: TeamLimits) => JSON.stringify(limits),
  },
  createdAt: INTEGER,
});
export type Team = Stored<typeof teams>;

interface Membership {
  team: Team;
  isDefault: boolean;
}

export function peopleIn(sql: Statement) {
  const userRows = users.over(sql);
  const teamRows = teams.over(sql);
  return {
    async addUser(user: User): Promise<void> {
      await sql`INSERT INTO users ${users.values(user)}`;
    },

    async userByEmail(email: string): Promise<User | undefined> {
      return userRows.first`SELECT * FROM users WHERE email = ${email}`;
    },

    async addTeam(team: Team): Promise<void> {
      await sql`INSERT INTO teams ${teams.values(team)}`;
    },

    async team(id: string): Promise<Team | undefined> {
      return teamRows.first`SELECT * FROM teams WHERE id = ${id}`;
    },

    async teamBySlug(slug: string): Promise<Team | undefined> {
      return teamRows.first`SELECT * FROM teams WHERE slug = ${slug}`;
    },

    async teams(): Promise<Team[]> {
      return teamRows.all`SELECT * FROM teams ORDER BY slug`;
    },

    async teamCount(): Promise<number> {
      const { rows } = await sql`SELECT COUNT(*) AS count FROM teams`;
      return integer(rows[0]?.count);
    },

    async setLimits(teamId: string, limits: TeamLimits): Promise<void> {
      await sql`UPDATE teams SET limits = ${JSON.stringify(limits)} WHERE id = ${teamId}`;
    },

    /** Locks the team until the transaction ends, so that a count stays valid until it is used. */
    async holdTeam(id: string): Promise<void> {
      await sql`UPDATE teams SET name = name WHERE id = ${id}`;
    },

    /** Locks the user, as `holdTeam` does a team. */
    async holdUser(id: string): Promise<void> {
      await sql`UPDATE users SET email = email WHERE id = ${id}`;
    },

    async join(userId: string, teamId: string, isDefault: boolean): Promise<void> {
      await sql`INSERT INTO team_members (team_id, user_id, is_default) VALUES (${teamId}, ${userId}, ${isDefault ? 1 : 0})`;
    },

    /** The team and the user's email, if the user is a member. */
    async member(userId: string, teamId: string): Promise<{ team: Team; email: string } | undefined> {
      const { rows } = await sql`SELECT teams.*, users.email FROM team_members
        JOIN teams ON teams.id = team_members.team_id JOIN users ON users.id = team_members.user_id
        WHERE team_members.user_id = ${userId} AND team_members.team_id = ${teamId}`;
      return rows[0] && { team: teams.read(rows[0]), email: text(rows[0].email) };
    },

    async teamsOf(userId: string): Promise<Membership[]> {
      const { rows } = await sql`SELECT teams.*, team_members.is_default FROM team_members
        JOIN teams ON teams.id = team_members.team_id
        WHERE team_members.user_id = ${userId} ORDER BY team_members.is_default DESC, teams.slug`;
      return rows.map((row) => ({ team: teams.read(row), isDefault: integer(row.is_default) === 1 }));
    },
  };
}
