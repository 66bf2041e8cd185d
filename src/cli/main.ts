/**
 * The `sandlot` command: up, down, doctor, tls, keys, limits, templates, bench, trace. Each command has a file; this
 * one picks it and turns what went wrong into a message and an exit code. Only that file is loaded: `up` becomes
 * `serve`, and loading the whole server twice took a third of a start.
 */
import { Fault } from "../contract/fault.ts";
import { loadConfig } from "./config.ts";

const HELP = `sandlot: isolated Linux sandboxes for AI agents, through the E2B interface

  sandlot up                   set up what is missing, then serve (this is what npm start does)
  sandlot up --with NAME …     the same, with these templates that come with Sandlot built before it says it is ready
  sandlot down                 end all sandboxes and undo what start-up changed on this machine; data is kept
  sandlot doctor               test every prerequisite by doing it
  sandlot tls                  make a certificate for *.sandlot.localhost, for URLs that a browser opens, and say how to
                               use it; with a certificate of your own: check it
  sandlot keys create [NAME]   make an API key and show it once
  sandlot keys list            show all keys and tokens, masked
  sandlot keys revoke ID       make a key or token useless at once
  sandlot keys token [NAME]    make a bearer token (sk_e2b_…) of the operator and show it once
  sandlot limits               show what each team may run
  sandlot limits --all         show every limit that somebody can run into, with its default and its setting
  sandlot limits TEAM …        change it: sandboxes=N at once, hours=H for each run, "none" lifts either; builds=N at
                               once, reads=N and changes=N requests each second, "usual" is what the server allows
                               any team; blocked=yes or blocked=no
  sandlot templates            show all templates, their builds and what they take on the disk
  sandlot templates build NAME …
                               build templates that come with Sandlot, before somebody asks for them
  sandlot templates ready NAME COUNT
                               keep at least so many sandboxes of a template ready, for creates that are fast
  sandlot templates metrics    show what a running server keeps ready and how creates were served, for Prometheus
  sandlot templates wall NAME crun|runsc|default
                               what sandboxes of a template are kept behind; "default": what the setting says
  sandlot bench                measure, each figure beside its floor or peer
  sandlot trace create|exec|fork|pause|resume …
                               do a real one on a server of its own, and show every step with its wall time and its
                               processor time; --ready: with a sandbox booted ahead
  sandlot help

Settings are environment variables; docs/configuration.md lists them.`;

const WITH = "--with";

async function main(args: readonly string[]): Promise<number> {
  const [command = "help", ...rest] = args;
  switch (command) {
    case "up":
      takeWith(rest);
      return await (await import("./up.ts")).up(loadConfig(process.env));
    case "serve":
      takesNone(command, rest);
      return await (await import("./serve.ts")).serve(loadConfig(process.env));
    case "down":
      takesNone(command, rest);
      return await (await import("./down.ts")).down(loadConfig(process.env));
    case "doctor":
      takesNone(command, rest);
      return await (await import("./doctor.ts")).doctor(loadConfig(process.env));
    case "tls":
      takesNone(command, rest);
      return await (await import("./tls.ts")).tls(loadConfig(process.env));
    case "keys":
      return await (await import("./keys.ts")).keys(loadConfig(process.env), rest);
    case "limits":
      return await (await import("./team-limits.ts")).limits(loadConfig(process.env), rest);
    case "templates":
      return await (await import("./templates.ts")).templates(loadConfig(process.env), rest);
    case "bench":
      return await (await import("./bench.ts")).bench(loadConfig(process.env), rest);
    case "trace":
      return await (await import("./bench.ts")).trace(loadConfig(process.env), rest);
    case "help":
    case "--help":
    case "-h":
      console.log(HELP);
      return 0;
    default:
      throw new Fault(400, `there is no command "${command}"; \`sandlot help\` lists them`);
  }
}

/** `--with NAME` is a setting that the server finds in its environment. */
function takeWith(rest: readonly string[]): void {
  const [option = "", ...names] = rest.flatMap((part) => part.split(/[=,]/)).filter((part) => part !== "");
  if (rest.length === 0) return;
  const wanted = names.filter((name) => name !== WITH);
  if (option !== WITH || wanted.length === 0) {
    throw new Fault(400, `sandlot up takes nothing, or ${WITH} NAME …, but got "${rest.join(" ")}"`);
  }
  process.env.SANDLOT_WITH = wanted.join(",");
}

function takesNone(command: string, rest: readonly string[]): void {
  if (rest.length > 0) throw new Fault(400, `sandlot ${command} takes no arguments, but got "${rest.join(" ")}"`);
}

/**
 * Modes are written out in the code: a loose or a strict umask of whoever starts this must not change what they mean.
 */
process.umask(0o022);

try {
  process.exit(await main(process.argv.slice(2)));
} catch (thrown) {
  if (thrown instanceof Fault) console.error(`sandlot: ${causes(thrown)}`);
  else console.error(thrown);
  process.exit(1);
}

/** The message with what lies behind it: here the reader is the operator. */
function causes(fault: Fault): string {
  const parts = [fault.message];
  for (let cause = fault.cause; cause instanceof Error; cause = cause.cause) parts.push(cause.message);
  return parts.join("\n  because: ");
}
