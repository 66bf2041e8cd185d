import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { requireLastingFolder, requireNoTracing, requireSettingsInFile } from "./service-requirements.ts";

const config = join(folderOfFile("requirements"), "config.json");
writeFileSync(config, JSON.stringify({ listen: "127.0.0.1:3001", ready: 2 }));

test("an installation rejects settings in the environment, except those with the value of the config file", () => {
  requireSettingsInFile({ PATH: "/bin", SANDLOT_LISTEN: "" });
  const file = { SANDLOT_CONFIG: config, SANDLOT_LISTEN: "127.0.0.1:3001" };
  expect(() => requireSettingsInFile({ ...file, SANDLOT_READY: "3" })).toThrow(
    "not in the environment (SANDLOT_CONFIG, SANDLOT_READY). FIX: write them into that file, and unset the variables",
  );
  expect(() => requireSettingsInFile({ SANDLOT_NO_SUCH: "1" })).toThrow("(SANDLOT_NO_SUCH)");
});

test("an installation rejects the variables of OpenTelemetry that the server reads, and names their place", () => {
  requireNoTracing({ OTEL_LOGS_EXPORTER: "console", OTEL_EXPORTER_OTLP_ENDPOINT: "" });
  for (const name of ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_TRACES_SAMPLER"]) {
    expect(() => requireNoTracing({ [name]: "value" })).toThrow(
      `this shell (${name}). FIX: unset the variables, and add them with \`systemctl edit sandlot\``,
    );
  }
});

test("an installation from a folder of npx is rejected", () => {
  requireLastingFolder("/usr/lib/node_modules/sandlot");
  const npx = "/root/.npm/_npx/0123456789abcdef/node_modules/sandlot";
  expect(() => requireLastingFolder(npx)).toThrow(`${npx} is a temporary folder of npx. FIX: npm install -g sandlot`);
});
