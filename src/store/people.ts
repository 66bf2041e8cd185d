/** Users and the teams they belong to. */
import { type Row, type Statement, text } from "./engine.ts";
import { INTEGER, orNull, type Stored, Table, TEXT } from "./table.ts";
import { readLimits, type TeamLimits } from "./team-limits.ts";

const users = new Table({ id: TEXT, email: TEXT, createdAt: INTEGER });
export type User = Stored<typeof users>;

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
  /** Null unless the team is being deleted with everything that it owns. */
  deletingSince: orNull(INTEGER),
});
export type Team = Stored<typeof teams>;

interface Membership {
  team: Team;
  isDefault: boolean;
}

export function peopleIn(sql: Statement) {
  const { first, all, execute, changed, number, texts } = teams.over(sql);
  const ofUsers = users.over(sql);
  return {
    /** False: there is already a user with this email address. */
    addUser: (user: User) => changed`INSERT INTO users ${users.values(user)} ON CONFLICT DO NOTHING`,
    user: (id: string) => ofUsers.first`SELECT * FROM users WHERE id = ${id}`,
    userByEmail: (email: string) => ofUsers.first`SELECT * FROM users WHERE email = ${email}`,
    users: () => ofUsers.all`SELECT * FROM users ORDER BY email`,
    userCount: () => number`SELECT COUNT(*) AS count FROM users`,

    /** With memberships and access tokens. False: there was no such user. */
    removeUser: (id: string) => changed`DELETE FROM users WHERE id = ${id}`,

    /** False: there is already a team with this slug. */
    addTeam: (team: Omit<Team, "deletingSince">) =>
      changed`INSERT INTO teams ${teams.values({ ...team, deletingSince: null })} ON CONFLICT DO NOTHING`,
    rename: (id: string, name: string) => execute`UPDATE teams SET name = ${name} WHERE id = ${id}`,
    team: (id: string) => first`SELECT * FROM teams WHERE id = ${id}`,
    teamBySlug: (slug: string) => first`SELECT * FROM teams WHERE slug = ${slug}`,
    teams: () => all`SELECT * FROM teams ORDER BY slug`,
    teamCount: () => number`SELECT COUNT(*) AS count FROM teams`,
    setLimits: (teamId: string, limits: TeamLimits) => execute`UPDATE teams SET limits = ${JSON.stringify(limits)}
        WHERE id = ${teamId}`,

    /**
     * Locks the team until the transaction ends, so that a count stays valid until it is used. False: it is being
     * deleted, or gone.
     */
    holdTeam: (id: string) => changed`UPDATE teams SET name = name WHERE id = ${id} AND deleting_since IS NULL`,

    /** False: it is being deleted already, or gone. */
    beginDeletion: (id: string, at: number) => changed`UPDATE teams SET deleting_since = ${at}
        WHERE id = ${id} AND deleting_since IS NULL`,

    /** Ids of the teams that are being deleted, in the order of the requests. */
    deletingTeams: () => texts`SELECT id FROM teams WHERE deleting_since IS NOT NULL ORDER BY deleting_since, id`,

    /** With its keys, memberships and limits. It has nothing else any more. */
    removeTeam: (id: string) => execute`DELETE FROM teams WHERE id = ${id} AND deleting_since IS NOT NULL`,

    /** Locks the user, as `holdTeam` does a team. */
    holdUser: (id: string) => execute`UPDATE users SET email = email WHERE id = ${id}`,
    join: (userId: string, teamId: string, isDefault: boolean) => execute`
        INSERT INTO team_members (team_id, user_id, is_default) VALUES (${teamId}, ${userId}, ${isDefault ? 1 : 0})`,

    /** False: the user was no member. */
    leave: (userId: string, teamId: string) => changed`
        DELETE FROM team_members WHERE team_id = ${teamId} AND user_id = ${userId}`,

    /** Makes the team the user's default, and no other. */
    prefer: (userId: string, teamId: string) => execute`UPDATE team_members
        SET is_default = CASE WHEN team_id = ${teamId} THEN 1 ELSE 0 END WHERE user_id = ${userId}`,

    membersOf: (teamId: string) => ofUsers.all`SELECT users.* FROM team_members
        JOIN users ON users.id = team_members.user_id WHERE team_members.team_id = ${teamId} ORDER BY users.email`,

    /** The team and the user's email, if the user is a member. */
    async member(userId: string, teamId: string): Promise<{ team: Team; email: string } | undefined> {
      const { rows } = await sql`SELECT teams.*, users.email FROM team_members
        JOIN teams ON teams.id = team_members.team_id JOIN users ON users.id = team_members.user_id
        WHERE team_members.user_id = ${userId} AND team_members.team_id = ${teamId}`;
      return rows[0] && { team: teams.read(rows[0]), email: text(rows[0].email) };
    },

    /** Without teams that are being deleted. The first is the default: the chosen one, or else the first by slug. */
    async teamsOf(userId: string): Promise<Membership[]> {
      const { rows } = await sql`SELECT teams.* FROM team_members
        JOIN teams ON teams.id = team_members.team_id
        WHERE team_members.user_id = ${userId} AND teams.deleting_since IS NULL
        ORDER BY team_members.is_default DESC, teams.slug`;
      return rows.map((row, nth) => ({ team: teams.read(row), isDefault: nth === 0 }));
    },
  };
}
