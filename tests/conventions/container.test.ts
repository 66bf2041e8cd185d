/** The files of the container image and of Kubernetes agree with the settings, with each other and with the docs. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { loadConfig } from "../../src/cli/settings/config.ts";
import { PROJECT, readText } from "./source-files.ts";

interface Container {
  env: { name: string; value: string }[];
  ports: { containerPort: number }[];
  volumeMounts: { mountPath: string }[];
}

const containerfile = readText("Containerfile");
const install = readText("docs/install.md");
const instructions = (name: string) =>
  [...containerfile.matchAll(new RegExp(`^${name} (.+)$`, "gm"))].map(([, words = ""]) => words);
const [volume = ""] = instructions("VOLUME");
const settings = Object.fromEntries(
  instructions("ENV").flatMap((words) => words.split(" ").map((word) => word.replace(/\$\{WITH\}/, "").split("="))),
);

test("the image has settings that the server accepts, and its folders are on the volume", () => {
  const { dataFolder, cacheFolder, templates } = loadConfig(settings);
  expect([dataFolder, cacheFolder]).toEqual([`${volume}/data`, `${volume}/cache`]);
  expect(templates).toEqual([]);
  const copied = instructions("COPY").flatMap(
    (words) => words.split(" ").filter((word) => !word.startsWith("--"))[0] ?? [],
  );
  expect(copied.filter((path) => !path.startsWith("/") && !existsSync(join(PROJECT, path)))).toEqual([]);
});

test("the command in the docs publishes the image's port, and keeps its volume", () => {
  const [, words = ""] = /^sudo podman run ((?:.*\\\n)*.*)$/m.exec(install) ?? [];
  const args = words.replaceAll("\\\n", " ").split(/\s+/);
  const text = { type: "string" } as const;
  const options = { env: text, name: text, publish: text, volume: text, "stop-timeout": text };
  const flags = { detach: { type: "boolean" }, privileged: { type: "boolean" } } as const;
  const { values } = parseArgs({ args, options: { ...options, ...flags }, allowPositionals: true });
  const [name = "", listen = ""] = values.env?.split("=") ?? [];
  const [port] = instructions("EXPOSE");
  expect(loadConfig({ ...settings, [name]: listen }).listen).toMatchObject({ hostname: "0.0.0.0", port: Number(port) });
  expect(values).toMatchObject({ publish: `127.0.0.1:${port}:${port}`, volume: `sandlot:${volume}`, privileged: true });
});

test("the pod of Kubernetes has the same, and none of the variables that Kubernetes adds", () => {
  const documents = Bun.YAML.parse(readText("deploy/kubernetes/sandlot.yaml")) as { kind: string; spec: unknown }[];
  expect(documents.map(({ kind }) => kind)).toEqual(["Namespace", "Service", "StatefulSet"]);
  const set = documents[2]?.spec as { template: { spec: { containers: Container[]; enableServiceLinks: boolean } } };
  const { containers, enableServiceLinks } = set.template.spec;
  expect(enableServiceLinks).toBe(false);
  const [{ env, ports, volumeMounts } = { env: [], ports: [], volumeMounts: [] }] = containers;
  const own = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const [port] = ports;
  expect(loadConfig({ ...settings, ...own }).listen).toMatchObject({ hostname: "0.0.0.0", port: port?.containerPort });
  expect(volumeMounts).toEqual([expect.objectContaining({ mountPath: volume })]);
});
