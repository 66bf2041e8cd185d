/**
 * `sandlot support`: one archive with what an engineer needs to help: doctor, versions, settings, log, metrics and
 * counts. It has no contents and no environment of sandboxes, and secrets are removed from every file.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { errorMessage } from "../../../base/error-message.ts";
import { described } from "../../../base/log.ts";
import { version } from "../../../base/version.ts";
import { Fault } from "../../../contract/fault.ts";
import { attempt, run } from "../../../system/command.ts";
import { DataFolder } from "../../../system/data-folder.ts";
import { Toolbox } from "../../../system/toolbox.ts";
import { adminCall } from "../../admin-client.ts";
import { hasStore } from "../../folder-store.ts";
import { requireRoot } from "../../prepare.ts";
import type { AdminSandbox } from "../../server/admin/server-status.ts";
import type { Config } from "../../settings/config.ts";
import { effectiveSettings } from "../../settings/settings.ts";
import { withStore } from "../../with-store.ts";
import { examineAndPrint } from "../doctor.ts";
import { likelySecrets } from "./likely-secrets.ts";
import { redacted } from "./redaction.ts";

const JOURNAL_LINES = "5000";
const COMMAND_MS = 30_000;
const DOCTOR = "doctor.txt";
/** Lines in them may hold what clients sent. */
const NEED_SECRETS = ["log.ndjson", "journal.ndjson", "kernel-log.txt"];
/** Rows of a table that are searched for secrets, the newest. */
const SECRET_ROWS_MAX = 5_000;

/** Contents of files by their name in the archive. */
type Parts = Readonly<Record<string, () => string | Promise<string>>>;

export async function support(config: Config, file: string | undefined, withDoctor: boolean): Promise<number> {
  requireRoot();
  const now = new Date().toISOString().replaceAll(":", "").slice(0, 17);
  const name = `sandlot-support-${now}`;
  const target = resolve(file ?? `${name}.tar.gz`);
  if (existsSync(target)) throw new Fault(409, `${target} exists; choose another name`);
  const folder = mkdtempSync(join(tmpdir(), "sandlot-support-"));
  try {
    mkdirSync(join(folder, name));
    for (const [part, text] of Object.entries(await partTexts(partsOf(config, withDoctor), () => secretsOf(config)))) {
      writeFileSync(join(folder, name, part), text);
    }
    const archive = join(folder, "archive.tar.gz");
    await run(["tar", "--create", "--gzip", "--file", archive, "--directory", folder, name]);
    writeFileSync(target, readFileSync(archive), { flag: "wx", mode: 0o600 });
  } finally {
    rmSync(folder, { recursive: true });
  }
  console.log(
    `sandlot: wrote ${target}\nSecrets are removed, names of teams and templates are not. Read it before you send it.`,
  );
  return 0;
}

/** The texts of the parts without secrets. A part that cannot be read says why; the others are still useful. */
export async function partTexts(
  parts: Parts,
  readSecrets: () => Promise<readonly string[]>,
): Promise<Record<string, string>> {
  const failed = (what: string) => (error: unknown) => `${what}: ${described(error)}\n`;
  const secrets = await readSecrets().catch(failed("left out, because the secrets to remove could not be read"));
  const texts: Record<string, string> = {};
  for (const [part, read] of Object.entries(parts)) {
    const isLeftOut = typeof secrets === "string" && NEED_SECRETS.includes(part);
    const text = isLeftOut ? secrets : await Promise.try(read).catch(failed("could not be read"));
    texts[part] = redacted(text, typeof secrets === "string" ? [] : secrets);
  }
  return texts;
}

function partsOf(config: Config, withDoctor: boolean): Parts {
  const admin = async (path: string) => await (await adminCall(config, `GET ${path}`)).text();
  return {
    ...(withDoctor ? { [DOCTOR]: () => doctorText(config) } : {}),
    "versions.txt": () => versions(config),
    "settings.json": async () => indented(await settingsOf(() => admin("/settings"))),
    "status.json": async () => indented(JSON.parse(await admin("/status"))),
    "sandboxes.json": async () => {
      const sandboxes = JSON.parse(await admin("/sandboxes")) as AdminSandbox[];
      return indented(sandboxes.map(({ alias, ...rest }) => rest));
    },
    "metrics.txt": () => admin("/metrics"),
    "log.ndjson": () => admin("/logs"),
    "journal.ndjson": () =>
      output(["journalctl", "--unit", "sandlot", "--output", "cat", "--no-pager", "--lines", JOURNAL_LINES]),
    "kernel-log.txt": () => output(["dmesg", "--level", "emerg,alert,crit,err,warn"]),
  };
}

/** Those of the running server; without one, those that a start from this shell would have. */
export async function settingsOf(ofServer: () => Promise<string>): Promise<object> {
  try {
    return { of: "the running server", settings: JSON.parse(await ofServer()) };
  } catch (error) {
    const reason = errorMessage(error);
    return {
      of: `this shell, because the server's could not be read: ${reason}`,
      settings: effectiveSettings(process.env),
    };
  }
}

async function doctorText(config: Config): Promise<string> {
  const lines: string[] = [];
  await examineAndPrint(config, { onlyProblems: false, print: (line) => void lines.push(line) });
  return `${lines.join("\n")}\n`;
}

async function versions({ cacheFolder }: Config): Promise<string> {
  const { toolFolder } = new Toolbox(cacheFolder);
  return [
    `sandlot ${version()}, bun ${Bun.version}, ${process.arch}`,
    await output(["uname", "-a"]),
    existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "no /etc/os-release\n",
    `tools: ${toolFolder}\n`,
    await output(["nft", "--version"]),
    await output(["findmnt", "--target", "/sys/fs/cgroup", "--submounts", "--list"]),
  ].join("\n");
}

async function output(argv: readonly string[]): Promise<string> {
  if (Bun.which(argv[0] ?? "") === null) return `this machine has no ${argv[0]}\n`;
  const { stdout, stderr, exitCode } = await attempt(argv, { timeoutMs: COMMAND_MS });
  return exitCode === 0 ? stdout : `${stdout}\n${argv[0]} ended with exit code ${exitCode}: ${stderr}\n`;
}

function indented(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

/** Secrets in the files and the store of the server, to remove them wherever they are. */
async function secretsOf(config: Config): Promise<string[]> {
  if (!DataFolder.isAt(config.dataFolder)) return [];
  const data = new DataFolder(config.dataFolder);
  const own = existsSync(data.keyFile) ? [readFileSync(data.keyFile, "utf8").trim()] : [];
  if (config.postgres !== undefined) own.push(config.postgres.password);
  if (!hasStore(config)) return own;
  const stored = await withStore(config, async ({ sandboxes, builds, webhooks }) => {
    const { certain, possible } = await sandboxes.secrets(SECRET_ROWS_MAX);
    const likely = likelySecrets(possible.concat(await builds.variables(SECRET_ROWS_MAX)));
    return [await webhooks.secrets(), certain, likely].flat();
  });
  return own.concat(stored);
}
