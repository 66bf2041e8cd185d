/** A real Prometheus scrapes a server, and its alerts fire. In long runs only, because it is a package of its own. */
import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { freePort } from "../../../src/base/testing/free-port.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { attempt } from "../../../src/system/command.ts";
import { startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const RULES = join(import.meta.dir, "../../../deploy/prometheus");
const INSTALL_MS = 600_000;
const folderNamed = foldersOfFile();

test.skipIf(!LONG)(
  "the alert rules are valid, and each is provoked",
  async () => {
    const check = await attempt(["promtool", "check", "rules", join(RULES, "sandlot.rules.yml")]);
    expect(check).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("SUCCESS") });
    const provoked = await attempt(["promtool", "test", "rules", join(RULES, "sandlot.rules.test.yml")]);
    expect(provoked).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("SUCCESS") });
  },
  INSTALL_MS,
);

test.skipIf(!LONG)(
  "Prometheus scrapes a server, and warns when an edge process was killed and when the server is gone",
  async () => {
    const [metricsPort, port] = [await freePort(), await freePort()];
    const server = await startServer(folderNamed("prometheus"), { SANDLOT_METRICS: `127.0.0.1:${metricsPort}` });
    const folder = mkdtempSync("/tmp/sandlot-prometheus-");
    // Waits of minutes would only make this slow.
    const rules = readFileSync(join(RULES, "sandlot.rules.yml"), "utf8").replaceAll(/for: \d+m/g, "for: 1s");
    writeFileSync(join(folder, "rules.yml"), rules);
    const config = {
      global: { scrape_interval: "1s", evaluation_interval: "1s" },
      rule_files: ["rules.yml"],
      scrape_configs: [{ job_name: "sandlot", static_configs: [{ targets: [`127.0.0.1:${metricsPort}`] }] }],
    };
    writeFileSync(join(folder, "prometheus.yml"), JSON.stringify(config));
    const prometheus = Bun.spawn(
      [
        "prometheus",
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { cwd: folder, stdout: "ignore", stderr: "ignore" },
    );
    try {
      const query = async (
        expression: string,
      ): Promise<{ metric: Record<string, string>; value: [number, string] }[]> => {
        const url = `http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(expression)}`;
        const response = await fetch(url).catch(() => undefined);
        return response?.ok ? ((await response.json()) as { data: { result: never[] } }).data.result : [];
      };
      const isFiring = async (alert: string) =>
        (await query(`ALERTS{alertname="${alert}",alertstate="firing"}`)).length > 0;
      const sandbox = await Sandbox.create(server.options);
      await until("it is scraped", async () => (await query('sandlot_sandboxes{state="running"} == 1')).length === 1);
      expect(await query('up{job="sandlot"} == 1')).toHaveLength(1);
      process.kill(edgeOf(server.pid), "SIGKILL");
      await until("the restart of an edge process is reported", () => isFiring("SandlotPartRestarted"));
      await sandbox.kill();
      await server.stop();
      await until("the stop is reported", () => isFiring("SandlotDown"));
    } finally {
      prometheus.kill();
      await prometheus.exited;
      rmSync(folder, { recursive: true });
    }
  },
  INSTALL_MS,
);

/** A process that the server started and that runs the program of the edge. */
function edgeOf(serverPid: number): number {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const found = pids.find((pid) => {
    try {
      const isChild = readFileSync(`/proc/${pid}/stat`, "utf8").includes(`) S ${serverPid} `);
      return isChild && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("/edge/edge");
    } catch {
      return false;
    }
  });
  if (found === undefined) throw new Error(`the server ${serverPid} has no edge process`);
  return Number(found);
}
