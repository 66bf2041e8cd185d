// A key that a sandbox uses and never holds: the server sets it on the requests to one site.
import { ALL_TRAFFIC, Sandbox, Secret } from "e2b";

const secret = await Secret.create(`example-${Date.now()}`, "first-key");
const sandbox = await Sandbox.create({
  network: {
    denyOut: [ALL_TRAFFIC],
    allowOut: ["httpbin.org"],
    rules: { "httpbin.org": [{ transform: { headers: { "X-Api-Key": Secret.fill(secret.name) } } }] },
  },
});
try {
  // This site replies with the headers that it received. A real one keeps them to itself.
  const receivedKey = async () => {
    const { stdout } = await sandbox.commands.run("curl -sS https://httpbin.org/headers");
    return JSON.parse(stdout).headers["X-Api-Key"];
  };
  console.log(`the site received ${await receivedKey()}`);

  await Secret.update(secret.name, "second-key");
  console.log(`after an update it received ${await receivedKey()}`);

  const { stdout: variables } = await sandbox.commands.run("sudo cat /proc/*/environ | tr '\\0' '\\n'");
  console.log(`a process of the sandbox has it: ${variables.includes("second-key")}`);
} finally {
  await sandbox.kill();
  await Secret.destroy(secret.secretId);
}
