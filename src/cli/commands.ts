/**
 * Every command of `sandlot` with its arguments and options. A command loads its own file only, so `up`, which becomes
 * `serve`, does not load the server twice (a third of a start).
 */
import { resolve } from "node:path";
import { DEFINITIONS } from "../../templates/definitions.ts";
import { Fault } from "../contract/fault.ts";
import type { Command, Given } from "./command.ts";
import type { OwnerNames } from "./commands/keys.ts";
import { loadConfig } from "./settings/config.ts";

const TARGET = "an absolute path, or a restic repository such as s3:https://HOST/BUCKET";
const BACKUP_OPTION = {
  backup: { type: "string", value: "ID", about: "backup to restore (default: the newest)" },
} as const;

const BACKUP_OPTIONS = {
  init: { type: "boolean", about: "make the repository if TARGET has none (default: no)" },
  keep: { type: "string", value: "DAYS", about: "afterwards remove older backups (default: keep all)" },
} as const;

const BUNDLE_OPTION = {
  bundle: { type: "string", value: "FILE", about: "file of `sandlot bundle`, instead of a network (default: none)" },
} as const;

const TEAM = { TEAM: "of a-z, 0-9, - and _; names of its templates begin with it" } as const;
const OWNER = {
  team: { type: "string", value: "TEAM", about: "team of the key (default: default)" },
  user: {
    type: "string",
    value: "EMAIL",
    about: "user of the token, and creator of the key (default: operator@localhost)",
  },
} as const;
const SECRETS_OF = {
  team: { type: "string", value: "TEAM", about: "team of the secret (default: default)" },
} as const;
const REVOKE_KEYS = {
  keys: { type: "boolean", about: "also revoke the API keys that the user made (default: no)" },
} as const;

const config = () => loadConfig(process.env);

export const COMMANDS: readonly Command[] = [
  {
    usage: "up",
    about: "Set up the machine if needed, then start the server",
    options: {
      with: {
        type: "string",
        multiple: true,
        value: "NAME,...",
        about: "built-in templates to build before the server is ready (default: none)",
      },
      ...BUNDLE_OPTION,
    },
    async run({ values }) {
      if (values.with !== undefined) process.env.SANDLOT_WITH = String(values.with);
      return (await import("./commands/up.ts")).up(config(), pathOf(values.bundle));
    },
  },
  { usage: "serve", run: async () => (await import("./server/serve.ts")).serve(config()) },
  {
    usage: "down",
    about: "End all sandboxes and undo the changes to this machine; data is kept",
    run: async () => (await import("./commands/down.ts")).down(config()),
  },
  {
    usage: "status",
    about: "Show address, sandboxes and resources of the server; exit code 3 if it is down",
    run: async () => (await import("./commands/status.ts")).status(config()),
  },
  {
    usage: "install",
    about: "Install and start the systemd service; again after an upgrade",
    options: BUNDLE_OPTION,
    run: async ({ values }) => (await import("./commands/service.ts")).install(config(), pathOf(values.bundle)),
  },
  {
    usage: "uninstall",
    about: "Remove the service, then do what `down` does",
    options: { data: { type: "boolean", about: "also data, cache and settings (default: no)" } },
    run: async ({ values }) =>
      (await import("./commands/service.ts")).uninstall(config(), { withData: values.data === true }),
  },
  {
    usage: "bundle FILE",
    about: "Write all that a first start fetches into one file, for use offline",
    options: {
      with: {
        type: "string",
        multiple: true,
        value: "NAME,...",
        about: "also these built-in templates (default: none)",
      },
    },
    async run({ positionals: [file = ""], values }) {
      if (values.with !== undefined) process.env.SANDLOT_WITH = String(values.with);
      return (await import("./commands/bundle.ts")).bundle(config(), resolve(file));
    },
  },
  {
    usage: "doctor",
    about: "Test every prerequisite on this machine",
    run: async () => (await import("./commands/doctor.ts")).doctor(config()),
  },
  {
    usage: "tls",
    about: "Make a certificate for *.sandlot.localhost or check your own",
    run: async () => (await import("./commands/tls.ts")).tls(config()),
  },
  {
    usage: "keys create [NAME]",
    about: 'Create an API key and print it once (default name: "unnamed")',
    options: OWNER,
    run: async ({ positionals: [name], values }) =>
      (await import("./commands/keys.ts")).createKey(config(), ownerOf(values), name),
  },
  {
    usage: "keys list",
    about: "List API keys and access tokens, masked",
    options: OWNER,
    run: async ({ values }) => (await import("./commands/keys.ts")).listKeys(config(), ownerOf(values)),
  },
  {
    usage: "keys revoke ID",
    about: "Revoke an API key or access token at once",
    options: OWNER,
    run: async ({ positionals: [id = ""], values }) =>
      (await import("./commands/keys.ts")).revokeKey(config(), ownerOf(values), id),
  },
  {
    usage: "keys token [NAME]",
    about: 'Create an access token and print it once (default name: "unnamed")',
    options: { user: OWNER.user },
    run: async ({ positionals: [name], values: { user } }) =>
      (await import("./commands/keys.ts")).createToken(config(), textOf(user), name),
  },
  {
    usage: "admin create [NAME]",
    about: 'Create an admin token and print it once (default name: "unnamed")',
    run: async ({ positionals: [name] }) => (await import("./commands/keys.ts")).createAdmin(config(), name),
  },
  {
    usage: "admin list",
    about: "List admin tokens, masked",
    run: async () => (await import("./commands/keys.ts")).listAdmins(config()),
  },
  {
    usage: "admin revoke ID",
    about: "Revoke an admin token at once",
    run: async ({ positionals: [id = ""] }) => (await import("./commands/keys.ts")).revokeAdmin(config(), id),
  },
  {
    usage: "teams list",
    about: "List teams with their members",
    run: async () => (await import("./commands/people.ts")).listTeams(config()),
  },
  {
    usage: "teams create TEAM [NAME]",
    about: "Create a team",
    arguments: { ...TEAM, NAME: "shown to people (default: TEAM)" },
    run: async ({ positionals: [team = "", name] }) =>
      (await import("./commands/people.ts")).addTeam(config(), team, name),
  },
  {
    usage: "teams rename TEAM NAME",
    about: "Change the name of a team that people see",
    run: async ({ positionals: [team = "", name = ""] }) =>
      (await import("./commands/people.ts")).changeTeamName(config(), team, name),
  },
  {
    usage: "teams delete TEAM",
    about: "Delete a team with everything that it owns",
    run: async ({ positionals: [team = ""] }) =>
      (await import("./commands/team-deletion.ts")).deleteTeam(config(), team),
  },
  {
    usage: "users list",
    about: "List users with their teams, the default one first",
    run: async () => (await import("./commands/people.ts")).listUsers(config()),
  },
  {
    usage: "users create EMAIL [TEAM...]",
    about: "Create a user, as a member of these teams; the first is the default",
    run: async ({ positionals: [email = "", ...teams] }) =>
      (await import("./commands/people.ts")).addUser(config(), email, teams),
  },
  {
    usage: "users delete EMAIL",
    about: "Delete a user with all access tokens",
    options: REVOKE_KEYS,
    run: async ({ positionals: [email = ""], values: { keys } }) =>
      (await import("./commands/people.ts")).removeUser(config(), email, keys === true),
  },
  {
    usage: "users join EMAIL TEAM",
    about: "Make a user a member of a team",
    run: async ({ positionals: [email = "", team = ""] }) =>
      (await import("./commands/people.ts")).joinTeam(config(), email, team),
  },
  {
    usage: "users leave EMAIL TEAM",
    about: "Remove a user from a team",
    options: REVOKE_KEYS,
    run: async ({ positionals: [email = "", team = ""], values: { keys } }) =>
      (await import("./commands/people.ts")).leaveTeam(config(), email, team, keys === true),
  },
  {
    usage: "users default EMAIL TEAM",
    about: "Set the team that clients choose after a login",
    run: async ({ positionals: [email = "", team = ""] }) =>
      (await import("./commands/people.ts")).preferTeam(config(), email, team),
  },
  {
    usage: "users password EMAIL",
    about: "Set the password of a user for the login page, and end all logins of that user",
    options: { remove: { type: "boolean", about: "remove the password instead (default: no)" } },
    run: async ({ positionals: [email = ""], values: { remove } }) =>
      (await import("./commands/user-password.ts")).changePassword(config(), email, remove === true),
  },
  {
    usage: "secrets list",
    about: "List the secrets of a team, without values",
    options: SECRETS_OF,
    run: async ({ values: { team } }) => (await import("./commands/secrets.ts")).listSecrets(config(), textOf(team)),
  },
  {
    usage: "secrets set NAME",
    about: "Create a secret, or set its new value, from a prompt or standard input",
    options: SECRETS_OF,
    run: async ({ positionals: [name = ""], values: { team } }) =>
      (await import("./commands/secrets.ts")).setSecret(config(), textOf(team), name),
  },
  {
    usage: "secrets delete NAME",
    about: "Delete a secret with all versions",
    options: SECRETS_OF,
    run: async ({ positionals: [name = ""], values: { team } }) =>
      (await import("./commands/secrets.ts")).deleteSecret(config(), textOf(team), name),
  },
  {
    usage: "secrets rotate-key",
    about: "Encrypt all secrets with a new key, while the server runs",
    run: async () => (await import("./commands/secrets.ts")).rotateKey(config()),
  },
  {
    usage: "secrets rotate-signing-key",
    about: "Replace the key that signs identity tokens",
    run: async () => (await import("./commands/secrets.ts")).rotateSigningKey(config()),
  },
  {
    usage: "audit",
    about: "Show the newest changes: who, what, from where, with which result",
    options: {
      team: { type: "string", value: "TEAM", about: "only changes of or to this team (default: all)" },
      actor: { type: "string", value: "ID", about: "only by this key, user or admin token (default: all)" },
      object: { type: "string", value: "TEXT", about: "only of this object, such as a sandbox id (default: all)" },
      limit: { type: "string", value: "N", about: "entries, 1 to 10000 (default: 100)" },
      json: { type: "boolean", about: "one JSON object per line (default: no)" },
    },
    run: async ({ values }) =>
      (await import("./commands/audit.ts")).audit(config(), {
        team: textOf(values.team),
        actor: textOf(values.actor),
        object: textOf(values.object),
        limit: textOf(values.limit),
        json: values.json === true,
      }),
  },
  {
    usage: "limits [TEAM] [LIMIT=VALUE...]",
    about: "Show the limits of all teams or of one, or change them",
    arguments: {
      "sandboxes=N": "sandboxes at once, or none for no limit (default: none)",
      "hours=H": "hours of each run, or none for no limit (default: none)",
      "builds=N": "builds at once, or usual for the server's limit (default: usual)",
      "reads=N": "reading requests each second, or usual (default: usual)",
      "changes=N": "changing requests each second, or usual (default: usual)",
      "secrets=N": "secrets, or usual (default: usual)",
      "secretVersions=N": "versions of each secret that are kept, or usual (default: usual)",
      "private=LIST": "reachable private ranges, addresses and names, none or usual (default: usual)",
      "sharedMemory=WORD": "sharing of equal memory pages: on, off or usual (default: usual)",
      "blocked=yes|no": "rejection of all new sandboxes (default: no)",
    },
    options: {
      all: { type: "boolean", about: "every limit of the server instead of the limits of teams (default: no)" },
    },
    async run({ positionals, values }) {
      const { limits, showAll } = await import("./commands/team-limits.ts");
      if (!values.all) return limits(config(), positionals);
      if (positionals.length > 0) throw new Fault(400, `sandlot limits --all takes no team, not "${positionals[0]}"`);
      return showAll();
    },
  },
  {
    usage: "templates",
    about: "List all templates with their builds and disk use",
    run: async () => (await import("./commands/templates.ts")).listTemplates(config()),
  },
  {
    usage: "templates build NAME...",
    about: "Build built-in templates before their first use",
    arguments: { NAME: DEFINITIONS.map(({ name }) => name).join(", ") },
    run: async ({ positionals }) =>
      (await import("./commands/builtin-templates.ts")).buildTemplates(config(), positionals),
  },
  {
    usage: "templates ready NAME COUNT",
    about: "Set the minimum of ready sandboxes of a template (default: 0)",
    run: async ({ positionals: [name = "", count = ""] }) =>
      (await import("./commands/templates.ts")).changeReady(config(), name, count),
  },
  {
    usage: "templates wall NAME RUNTIME",
    arguments: { RUNTIME: "crun, runsc, or default for the setting SANDLOT_WALL" },
    about: "Set the isolation runtime of a template",
    run: async ({ positionals: [name = "", runtime = ""] }) =>
      (await import("./commands/templates.ts")).changeRuntime(config(), name, runtime),
  },
  {
    usage: "top",
    about: "Show the sandboxes of all teams, live on a terminal",
    options: {
      sort: {
        type: "string",
        value: "KEY",
        about: "cpu, memory, disk, saved, age, team, template, state or id (default: cpu)",
      },
      filter: {
        type: "string",
        value: "TEXT",
        about: "only those with this text in id, template, team or state (default: all)",
      },
    },
    run: async ({ values }) =>
      (await import("./commands/top/top.ts")).top(config(), {
        sort: String(values.sort ?? "cpu"),
        filter: String(values.filter ?? ""),
      }),
  },
  {
    usage: "logs [SOURCE]",
    about: "Show the log in readable form (default: newest lines of the running server)",
    arguments: { SOURCE: "journal, a file, or - for standard input" },
    options: {
      level: { type: "string", value: "LEVEL", about: "least level: info, warn or error (default: info)" },
      request: { type: "string", value: "ID", about: "only lines about this request (default: all)" },
    },
    run: async ({ positionals: [source], values }) =>
      (await import("./commands/logs/logs.ts")).logs(config(), {
        source,
        level: String(values.level ?? "info"),
        request: values.request === undefined ? undefined : String(values.request),
      }),
  },
  {
    usage: "support [FILE]",
    about: "Write a diagnostics bundle without secrets",
    options: {
      "no-doctor": { type: "boolean", about: "without the doctor, which takes up to a minute (default: no)" },
    },
    run: async ({ positionals: [file], values }) =>
      (await import("./commands/support/support.ts")).support(config(), file, !values["no-doctor"]),
  },
  {
    usage: "metrics",
    about: "Print the metrics of the running server for Prometheus",
    run: async () => (await import("./commands/metrics.ts")).metrics(config()),
  },
  // Alias of `metrics`.
  { usage: "templates metrics", run: async () => (await import("./commands/metrics.ts")).metrics(config()) },
  {
    usage: "backup TARGET",
    about: "Back up a running server: store, templates, paused sandboxes, volumes",
    arguments: { TARGET },
    options: BACKUP_OPTIONS,
    run: async ({ positionals: [target = ""], values: { init, keep } }) =>
      (await import("./commands/backup.ts")).startBackup(config(), target, { init: init === true, keep: textOf(keep) }),
  },
  {
    usage: "backup within TARGET",
    options: BACKUP_OPTIONS,
    run: async ({ positionals: [target = ""], values: { init, keep } }) =>
      (await import("./commands/backup.ts")).backupInNamespace(config(), target, {
        init: init === true,
        keep: textOf(keep),
      }),
  },
  {
    usage: "restore TARGET",
    about: "Restore a backup into an empty data folder",
    arguments: { TARGET },
    options: BACKUP_OPTION,
    run: async ({ positionals: [target = ""], values }) =>
      (await import("./commands/backup.ts")).startRestore(config(), target, textOf(values.backup)),
  },
  {
    usage: "restore within TARGET",
    options: BACKUP_OPTION,
    run: async ({ positionals: [target = ""], values }) =>
      (await import("./commands/backup.ts")).restoreInNamespace(config(), target, textOf(values.backup)),
  },
  {
    usage: "verify TARGET",
    about: "List the backups at a target; check that they are whole",
    arguments: { TARGET },
    run: async ({ positionals: [target = ""] }) => (await import("./commands/backup.ts")).verify(config(), target),
  },
  {
    usage: "bench",
    about: "Run the benchmark and compare each figure with a peer",
    options: {
      rounds: { type: "string", value: "N", about: "measurements of each row (default: 20, or 5 with --quick)" },
      row: { type: "string", multiple: true, value: "NAME", about: "row to run; may be repeated (default: all rows)" },
      quick: { type: "boolean", about: "few rows, small sizes, two minutes (default: no)" },
      long: { type: "boolean", about: "the full sizes and times of heavy rows (default: no)" },
      plots: { type: "boolean", about: "the plots of the documentation instead of rows (default: no)" },
      plot: { type: "string", multiple: true, value: "NAME", about: "only this plot; may be repeated (default: none)" },
      json: { type: "string", value: "FILE", about: "file for the figures (default: none)" },
    },
    run: async ({ words }) => (await import("./commands/bench.ts")).bench(config(), words),
  },
  {
    usage: "trace OPERATION...",
    arguments: { OPERATION: "create, exec, fork, pause or resume" },
    about: "Show the time of every step of an operation, on a separate server",
    options: { ready: { type: "boolean", about: "a create served from the ready pool (default: no)" } },
    run: async ({ words }) => (await import("./commands/bench.ts")).trace(config(), words),
  },
];

function ownerOf({ team, user }: Given["values"]): OwnerNames {
  return { team: textOf(team), user: textOf(user) };
}

function textOf(value: Given["values"][string]): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function pathOf(value: Given["values"][string]): string | undefined {
  return typeof value === "string" ? resolve(value) : undefined;
}
