/** The last thing start-up says: where it is, what to export, what to try. */

export function banner(listen: { hostname: string; port: number }, apiKey: string | undefined): string {
  const url = `http://${reachable(listen.hostname)}:${listen.port}`;
  return `
Sandlot is ready at ${url}

  export E2B_API_URL=${url}
  export E2B_SANDBOX_URL=${url}
  export E2B_API_KEY=${apiKey ?? "…   (sandlot keys create makes one)"}

Try it (npm install e2b):

  import { Sandbox } from "e2b";
  const sandbox = await Sandbox.create();
  const { stdout } = await sandbox.commands.run("echo hello from $(hostname)");
  console.log(stdout);
  await sandbox.kill();
`;
}

/** An address to listen on is not always one to connect to. */
function reachable(hostname: string): string {
  if (hostname === "0.0.0.0" || hostname === "::") return "127.0.0.1";
  return hostname.includes(":") ? `[${hostname}]` : hostname;
}
