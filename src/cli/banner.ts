/** The last thing start-up says: where it is, what to export, what to try. */

export interface BannerKey {
  /** The first key; undefined when the operator has put its file away. */
  secret: string | undefined;
  /** Where it is kept. */
  file: string;
  /** Whether a person reads this. What goes to a file or a journal stays there, so no key may be in it. */
  isTerminal: boolean;
}

export function banner(listen: { hostname: string; port: number }, key: BannerKey): string {
  const url = `http://${reachable(listen.hostname)}:${listen.port}`;
  return `
Sandlot is ready at ${url}

  export E2B_API_URL=${url}
  export E2B_SANDBOX_URL=${url}
  export E2B_API_KEY=${shownKey(key)}

Try it (npm install e2b):

  import { Sandbox } from "e2b";
  const sandbox = await Sandbox.create();
  const { stdout } = await sandbox.commands.run("echo hello from $(hostname)");
  console.log(stdout);
  await sandbox.kill();
`;
}

/** To be pasted into a shell as it is. */
function shownKey({ secret, file, isTerminal }: BannerKey): string {
  if (secret === undefined) return "…   (sandlot keys create makes one)";
  return isTerminal ? secret : `$(sudo cat ${shellWord(file)})`;
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** An address to listen on is not always one to connect to. */
function reachable(hostname: string): string {
  if (hostname === "0.0.0.0" || hostname === "::") return "127.0.0.1";
  return hostname.includes(":") ? `[${hostname}]` : hostname;
}
