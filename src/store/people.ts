/** Users and the teams they belong to. */
import { integer, type Row, type Statement, text } from "./engine.ts";
import { readLimits, type TeamLimits } from "./team-limits.ts";

interface User {
  id: string;
  email: string;
  createdAt: number;
}

export interface Team {
  id: string;
  name: string;
  /** The namespace of the team's templates. */
  slug: string;
  limits: TeamLimits;
  createdAt: number;
}

interface Membership {
  team: Team;
  isDefault: boolean;
}

export function peopleIn(sql: Statement) {
  return {
    async addUser(user: User): Promise<void> {
      await sql`INSERT INTO users (id, email, created_at) VALUES (${user.id}, ${user.email}, ${user.createdAt})`;
    },

    async userByEmail(email: string): Promise<User | undefined> {
      const { rows } = await sql`SELECT * FROM users WHERE email = ${email}`;
      return rows[0] && readUser(rows[0]);
    },

    async addTeam(team: Team): Promise<void> {
      await sql`INSERT INTO teams (id, name, slug, limits, created_at)
        VALUES (${team.id}, ${team.name}, ${team.slug}, ${JSON.stringify(team.limits)}, ${team.createdAt})`;
    },

    async team(id: string): Promise<Team | undefined> {
      const { rows } = await sql`SELECT * FROM teams WHERE id = ${id}`;
      return rows[0] && readTeam(rows[0]);
    },

    async teamBySlug(slug: string): Promise<Team | undefined> {
      const { rows } = await sql`SELECT * FROM teams WHERE slug = ${slug}`;
      return rows[0] && readTeam(rows[0]);
    },

    async teams(): Promise<Team[]> {
      const { rows } = await sql`SELECT * FROM teams ORDER BY slug`;
      return rows.map(readTeam);
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
      return rows[0] && { team: readTeam(rows[0]), email: text(rows[0].email) };
    },

    async teamsOf(userId: string): Promise<Membership[]> {
      const { rows } = await sql`SELECT teams.*, team_members.is_default FROM team_members
        JOIN teams ON teams.id = team_members.team_id
        WHERE team_members.user_id = ${userId} ORDER BY team_members.is_default DESC, teams.slug`;
      return rows.map((row) => ({ team: readTeam(row), isDefault: integer(row.is_default) === 1 }));
    },
  };
}

function readUser(row: Row): User {
  return { id: text(row.id), email: text(row.email), createdAt: integer(row.created_at) };
}

export function readTeam(row: Row): Team {
  const slug = text(row.slug);
  return {
    id: text(row.id),
    name: text(row.name),
    slug,
    limits: readLimits(text(row.limits), slug),
    createdAt: integer(row.created_at),
  };
}
