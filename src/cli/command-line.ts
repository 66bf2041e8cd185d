/** Finds the command that the words of a command line name, checks its arguments, and runs it or prints its help. */
import { parseArgs } from "node:util";
import { nearest } from "../base/nearest.ts";
import { version } from "../base/version.ts";
import { Fault } from "../contract/fault.ts";
import type { Command, Given } from "./command.ts";
import { COMMANDS } from "./commands.ts";

/** Every command has this option. */
const HELP = { help: { type: "boolean", short: "h" } } as const;

/** Runs the command that the words name and returns its exit code. */
export async function runCommand(words: readonly string[]): Promise<number> {
  const [first = "help", ...rest] = words;
  if (first === "--version") return print(`sandlot ${version()}`);
  if (["help", "--help", "-h"].includes(first)) return print(helpText(rest.join(" ")));
  const command = commandOf(words);
  if (command === undefined) {
    if (groupOf(first).length === 0) throw noCommand(first);
    if (rest.includes("--help") || rest.includes("-h")) return print(helpText(first));
    throw new Fault(400, `\`sandlot ${words.join(" ")}\` is not a command. Usage:\n${usageOf(groupOf(first))}`);
  }
  const name = nameOf(command);
  const given = parseWords(name, words.slice(name.split(" ").length));
  return given.values.help ? print(helpText(name)) : await command.run(given);
}

/** Fault 400 if the command does not take these words. */
export function parseWords(name: string, words: readonly string[]): Given {
  const command = COMMANDS.find((each) => nameOf(each) === name);
  if (command === undefined) throw noCommand(name);
  const options = { ...HELP, ...command.options };
  let parsed: Omit<Given, "words">;
  try {
    parsed = parseArgs({ args: [...words], options, allowPositionals: true });
  } catch (cause) {
    const { message } = cause as Error;
    const unknown = /^Unknown option '(.+?)'/.exec(message)?.[1];
    if (unknown === undefined) throw new Fault(400, `${name}: ${message.split("\n")[0]}`);
    const known = Object.keys(options).map((option) => `--${option}`);
    const hint = suggestion(unknown, known) ?? `\`sandlot ${name} --help\` lists its options`;
    throw new Fault(400, `${name} has no option "${unknown}"; ${hint}`);
  }
  if (!parsed.values.help) checkCount(command, parsed.positionals);
  return { ...parsed, words };
}

function checkCount(command: Command, positionals: readonly string[]): void {
  const name = nameOf(command);
  const wanted = command.usage.slice(name.length).split(" ").filter(Boolean);
  const min = wanted.filter((argument) => !argument.startsWith("[")).length;
  const max = wanted.some((argument) => argument.includes("...")) ? Number.POSITIVE_INFINITY : wanted.length;
  const { length } = positionals;
  if (length >= min && length <= max) return;
  const wrong = length < min ? `${wanted[length]} is missing` : `unexpected argument "${positionals[max]}"`;
  throw new Fault(400, `${name}: ${wrong}. Usage:\n${usageOf(groupOf(name))}`);
}

/** The command with the longest name that the words begin with. */
function commandOf(words: readonly string[]): Command | undefined {
  const [two, one] = [words.slice(0, 2).join(" "), words[0]];
  return COMMANDS.find((each) => nameOf(each) === two) ?? COMMANDS.find((each) => nameOf(each) === one);
}

function nameOf({ usage }: Command): string {
  return /^[a-z]+(?: [a-z]+(?:-[a-z]+)*)*/.exec(usage)?.[0] ?? "";
}

/** The command of this name, and those whose names begin with it; all for an empty name. */
function groupOf(name: string): Command[] {
  const shown = COMMANDS.filter(({ about }) => about !== undefined);
  return name === "" ? shown : shown.filter((command) => `${nameOf(command)} `.startsWith(`${name} `));
}

function noCommand(name: string): Fault {
  const known = groupOf("").map((command) => nameOf(command).split(" ")[0] ?? "");
  return new Fault(400, `there is no command "${name}"; ${suggestion(name, known) ?? "`sandlot help` lists all"}`);
}

function suggestion(word: string, known: readonly string[]): string | undefined {
  const near = nearest(word, known);
  return near === undefined ? undefined : `did you mean "${near}"?`;
}

function usageOf(commands: readonly Command[]): string {
  return commands.map(({ usage, options }) => `  sandlot ${usage}${options ? " [OPTION...]" : ""}`).join("\n");
}

/** Help for a command or group, with arguments and options; without a name, for all commands. */
function helpText(name: string): string {
  const group = groupOf(name);
  if (group.length === 0) throw noCommand(name);
  if (name !== "") return group.map(details).join("\n\n");
  const width = Math.max(...group.map(({ usage }) => usage.length));
  return `sandlot: isolated Linux sandboxes for AI agents, through the E2B interface

${group.map(({ usage, about }) => `  sandlot ${usage.padEnd(width)}  ${about}`).join("\n")}

\`sandlot COMMAND --help\` shows the options of a command, \`sandlot --version\` the version.
Settings are environment variables; docs/configuration.md lists them.`;
}

function details(command: Command): string {
  const options = Object.entries(command.options ?? {}).map(([name, { value = "", about }]) => {
    return [`--${name} ${value}`, about] as const;
  });
  const lines = [...Object.entries(command.arguments ?? {}), ...options];
  return [
    usageOf([command]),
    `    ${command.about}`,
    ...lines.map(([name, about]) => `    ${name.padEnd(16)}  ${about}`),
  ].join("\n");
}

function print(text: string): number {
  console.log(text);
  return 0;
}
