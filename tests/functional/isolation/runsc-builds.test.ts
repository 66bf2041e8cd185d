/** Templates built with runsc: their steps, their start commands, and their sandboxes. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Sandbox, Template, waitForPort } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer("runsc");
/** Answers with a random number that it drew once. */
const START = `python3 -uc '
import http.server, random
drawn = str(random.getrandbits(64)).encode()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(drawn)
http.server.HTTPServer(("", 4567), Answer).serve_forever()'`;

const answerOf = async (sandbox: Sandbox) => (await sandbox.commands.run("curl -s http://127.0.0.1:4567/")).stdout;

describe("a template with steps and a start command", () => {
  beforeAll(async () => {
    const template = Template()
      .fromTemplate("base")
      .runCmd("uname -r > /opt/kernel && id -un >> /opt/kernel", { user: "root" })
      .setEnvs({ GREETING: "hello" })
      .setStartCmd(START, waitForPort(4567));
    await Template.build(template, "behind-runsc", { ...server().options, memoryMB: 512 });
  });

  test("is built with runsc; its sandboxes continue the processes of the start command", async () => {
    const made = await Promise.all([1, 2].map(() => Sandbox.create("behind-runsc", server().options)));
    const [first = "", second] = await Promise.all(made.map(answerOf));
    expect(first).toMatch(/^\d+$/);
    expect(second).toBe(first);
    for (const sandbox of made) {
      expect((await sandbox.commands.run("cat /opt/kernel; echo $GREETING")).stdout).toBe("4.4.0\nroot\nhello\n");
      await sandbox.kill();
    }
  });
});

test("a failed step ends the build, and the error names it", async () => {
  const template = Template().fromTemplate("base").runCmd("echo reason >&2; exit 3");
  const refusal = await refusalOf(Template.build(template, "fails-behind-runsc", server().options));
  expect(refusal.message).toContain("ended with exit code 3");
});
