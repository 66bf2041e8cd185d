/** The certificate of header rules inside sandboxes: in which it is, and which of their processes trust it. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { LONG } from "../../../src/base/testing/long.ts";
import type { CreateSandbox, Egress } from "../../../src/contract/internal/host.ts";
import { RUNTIME_PORT } from "../../../src/contract/runtime/version.ts";
import { follow } from "../../../src/guest/testing/process-calls.ts";
import { envelope, envelopes } from "../../../src/guest/testing/running-guest.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { BASE_CLIENTS, MORE_CLIENTS, SLOW_BASE_CLIENTS } from "../../support/trusting-clients.ts";
import { until } from "../../support/until.ts";
import { CLIENTS_IMAGE } from "../../workloads/images.ts";

const here = new MachineOfFile("rule-trust");

const WITH_RULES: Egress = { allowRanges: [], allowNames: [], denyRanges: [], proxy: null, ruleNames: ["a.test"] };
const ruled: CreateSandbox = { ...request, egress: WITH_RULES };
/** The bundle trusts the authority; the variables lead to it. */
const TRUSTING = "1 /etc/ssl/certs/ca-certificates.crt";
const NOT_TRUSTING = "0";

/** What a new process of the sandbox prints. */
async function printed(id: string, command: string, user = "root"): Promise<string> {
  const response = await fetch(`http://${here.machine.addressOf(id)}:${RUNTIME_PORT}/process.Process/Start`, {
    method: "POST",
    headers: { "content-type": "application/connect+json", authorization: `Basic ${btoa(`${user}:`)}` },
    body: envelope({ process: { cmd: "/bin/bash", args: ["-l", "-c", command] }, stdin: false }),
  });
  if (response.body === null) throw new Error("no stream");
  return (await follow(envelopes(response.body))).stdout.trim();
}

/** Serves `rule.test` inside the sandbox, with a certificate of the authority. */
async function startSite(id: string): Promise<void> {
  const { ruleAuthority } = here.machine.parts;
  const files: [string, string][] = [
    ["/tmp/key.pem", ruleAuthority.leafKeyPem],
    ["/tmp/crt.pem", await ruleAuthority.certificateFor("rule.test")],
    ["/tmp/site.cjs", await Bun.file(join(import.meta.dir, "../../support/services/trusted-site.cjs")).text()],
  ];
  for (const [path, text] of files) await printed(id, `base64 -d > ${path} <<< ${btoa(text)}`);
  await printed(id, "echo 127.0.0.1 rule.test >> /etc/hosts");
  await printed(id, "nohup node /tmp/site.cjs /tmp/key.pem /tmp/crt.pem > /tmp/site.log 2>&1 &");
  await until(
    () => "the site inside listens",
    async () => (await printed(id, "cat /tmp/site.log")) === "listening",
  );
}

function trustIn(id: string): Promise<string> {
  const [, line] = here.machine.parts.ruleAuthority.certificatePem.split("\n");
  return printed(id, `echo $(grep -cF '${line}' /etc/ssl/certs/ca-certificates.crt) $SSL_CERT_FILE`);
}

test("is trusted through pause and copies with rules, and not in copies without", async () => {
  const { id } = await here.machine.create(ruled);
  expect(await trustIn(id)).toBe(TRUSTING);
  await here.machine.pause(id, "paused", { memory: true });
  await here.machine.resume({ ...ruled, id, checkpoint: "paused", memory: true });
  expect(await trustIn(id)).toBe(TRUSTING);
  for (const memory of [true, false]) {
    await here.machine.snapshot(id, "copied", { memory });
    for (const [origin, expected] of [[ruled, TRUSTING] as const, [request, NOT_TRUSTING] as const]) {
      const copy = await here.machine.create({ ...origin, checkpoint: "copied" });
      expect(await trustIn(copy.id)).toBe(expected);
      await here.machine.destroy(copy.id);
    }
    await here.machine.removeCheckpoint("copied");
  }
  await here.machine.destroy(id);
}, 120_000);

test("follows the rules of a running sandbox, and variables of the creator override the guest's", async () => {
  const { id } = await here.machine.create({ ...request, envVars: { CURL_CA_BUNDLE: "/own" } });
  expect(await trustIn(id)).toBe(NOT_TRUSTING);
  await here.machine.setEgress(id, WITH_RULES);
  expect(await trustIn(id)).toBe(TRUSTING);
  expect(await printed(id, "echo $CURL_CA_BUNDLE $NODE_EXTRA_CA_CERTS", "user")).toBe(
    "/own /etc/ssl/sandlot-rules.pem",
  );
  await here.machine.setEgress(id, "closed");
  expect(await trustIn(id)).toBe(NOT_TRUSTING);
  await here.machine.destroy(id);
});

test("is trusted by the clients of the template base, and no longer without rules", async () => {
  const { id } = await here.machine.create(ruled);
  await startSite(id);
  const outputs = await Promise.all(
    [...BASE_CLIENTS, ...(LONG ? SLOW_BASE_CLIENTS : [])].map(async ([name, command, expected]) => {
      const output = await printed(id, `${command} 2>&1`, "user");
      return output.includes(expected) ? [] : [`${name}: ${output}`];
    }),
  );
  expect(outputs.flat()).toEqual([]);

  await here.machine.setEgress(id, "closed");
  for (const command of ["curl -s https://rule.test/", "node -e 'fetch(\"https://rule.test/\")'"]) {
    expect(await printed(id, `${command} > /dev/null 2>&1; echo $?`, "user")).not.toBe("0");
  }
  await here.machine.destroy(id);
}, 120_000);

test.skipIf(!LONG)(
  "is trusted by clients in Go, Java and Python",
  async () => {
    const { id } = await here.machine.create({
      ...ruled,
      kind: { ...ruled.kind, image: CLIENTS_IMAGE, memoryMB: 2048 },
    });
    await startSite(id);
    for (const [name, command, expected] of MORE_CLIENTS) {
      expect(`${name}: ${await printed(id, `${command} 2>&1`, "user")}`).toContain(expected);
    }
    await here.machine.destroy(id);
  },
  600_000,
);
