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
  const { first, all, execute, number } = teams.over(sql);
  return {
    addUser: (user: User) => execute`INSERT INTO users ${users.values(user)}`,
    userByEmail: (email: string) => users.over(sql).first`SELECT * FROM users WHERE email = ${email}`,
    addTeam: (team: Team) => execute`INSERT INTO teams ${teams.values(team)}`,
    team: (id: string) => first`SELECT * FROM teams WHERE id = ${id}`,
    teamBySlug: (slug: string) => first`SELECT * FROM teams WHERE slug = ${slug}`,
    teams: () => all`SELECT * FROM teams ORDER BY slug`,
    teamCount: () => number`SELECT COUNT(*) AS count FROM teams`,
    setLimits: (teamId: string, limits: TeamLimits) => execute`UPDATE teams SET limits = ${JSON.stringify(limits)}
        WHERE id = ${teamId}`,

    /** Locks the team until the transaction ends, so that a count stays valid until it is used. */
    holdTeam: (id: string) => execute`UPDATE teams SET name = name WHERE id = ${id}`,

    /** Locks the user, as `holdTeam` does a team. */
    holdUser: (id: string) => execute`UPDATE users SET email = email WHERE id = ${id}`,
    join: (userId: string, teamId: string, isDefault: boolean) => execute`
        INSERT INTO team_members (team_id, user_id, is_default) VALUES (${teamId}, ${userId}, ${isDefault ? 1 : 0})`,

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
