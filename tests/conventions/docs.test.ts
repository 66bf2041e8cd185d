/** The documentation agrees with the code. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path/posix";
import { COMMANDS as CLI_COMMANDS } from "../../src/cli/commands.ts";
import { CONFIG_FILE_DEFAULT, CONFIG_FILE_VARIABLE, SETTINGS } from "../../src/cli/settings/settings.ts";
import { JSON_DEPTH_MAX } from "../../src/contract/limits.ts";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import { createSandboxV1, createSandboxV2 } from "../../src/contract/management/create-sandbox.ts";
import {
  EGRESS_ENTRIES_MAX,
  EGRESS_ENTRY_MAX_CHARS,
  ENV_TOTAL_MAX_BYTES,
  ENV_VARIABLE_MAX_BYTES,
  HTTPS_PORTS_MAX,
  KEY_NAME_MAX_CHARS,
  MASK_REQUEST_HOST_MAX_CHARS,
  MCP_MAX_BYTES,
  METADATA_ENTRIES_MAX,
  METADATA_KEY_MAX_CHARS,
  METADATA_MAX_BYTES,
  PROXY_CREDENTIAL_MAX_BYTES,
} from "../../src/contract/management/limits.ts";
import { network } from "../../src/contract/management/network.ts";
import { Filesystem } from "../../src/contract/runtime/wire/filesystem/filesystem_pb.ts";
import { Process } from "../../src/contract/runtime/wire/process/process_pb.ts";
import { ACCESS_TOKENS_PER_USER_MAX, API_KEYS_PER_TEAM_MAX } from "../../src/control/access/keys.ts";
import {
  BODIES_PER_TEAM_MAX_BYTES,
  BODY_BYTES_PER_TEAM_BURST,
  BODY_BYTES_PER_TEAM_PER_SECOND,
} from "../../src/control/budgets/body-budgets.ts";
import { REQUEST_BODY_MAX_BYTES } from "../../src/control/http/dispatch.ts";
import { REQUEST_VALUES_MAX } from "../../src/control/http/json-bounds.ts";
import { REQUEST_BODY_MS } from "../../src/control/http/request-body.ts";
import { EGRESS_CHANGES_WAITING_MAX } from "../../src/control/lifecycle/transitions/egress-changes.ts";
import { REQUEST_LARGE_BODY_MAX_BYTES } from "../../src/control/limits.ts";
import { ABSENT_ROUTES } from "../../src/control/routes/refused-routes.ts";
import { routes } from "../../src/control/routes/routes.ts";
import { ANY_INTERFACE } from "../../src/sandbox/network/slot-chains.ts";
import { allChecks } from "../../src/setup/doctor/doctor.ts";
import { SETTINGS as HOST_SETTINGS } from "../../src/setup/host-changes.ts";
import { COMMANDS } from "../../src/setup/packages.ts";
import { migrations } from "../../src/store/migrations.ts";
import { anchors, links, tableRows } from "./markdown.ts";
import { PROJECT, projectFiles, readText } from "./source-files.ts";

const files = projectFiles();
const pages = files.filter(({ path }) => /^(?:[A-Z]+|docs\/.*|examples\/.*)\.md$/.test(path));
const api = readText("docs/api.md");

describe("configuration.md", () => {
  test("has the settings, and no others", () => {
    const groups = readText("docs/configuration.md").split(/^##+ /m);
    const rows = groups
      .filter((group) => /^\| Variable +\| Key /m.test(group))
      .flatMap((group) => tableRows(group, ["Variable", "Key", "Default", "Meaning"]));
    const settings = Object.entries(SETTINGS).map(([variable, { key, default: value }]) => ({
      Variable: variable,
      Key: key,
      Default: value,
      Meaning: expect.stringMatching(/\.$/),
    }));
    expect(rows.filter(({ Variable }) => Variable !== CONFIG_FILE_VARIABLE)).toEqual(settings);
    expect(rows.find(({ Variable }) => Variable === CONFIG_FILE_VARIABLE)?.Default).toBe(CONFIG_FILE_DEFAULT);
  });
});

describe("host-changes.md", () => {
  const page = readText("docs/host-changes.md");

  test("has the kernel settings, and no others", () => {
    const settings = HOST_SETTINGS.map(({ name, atLeast, perNetwork }) => ({
      Setting: name,
      "At least": String(atLeast),
      Scope: perNetwork ? "network namespace" : "machine",
      Why: expect.stringMatching(/\w/),
    }));
    expect(tableRows(page, ["Setting", "At least", "Scope", "Why"])).toEqual(settings);
  });

  test("has the packages, and no others", () => {
    const packages = Object.entries(COMMANDS).map(([Command, Package]) => ({ Command, Package }));
    expect(tableRows(page, ["Command", "Package"])).toEqual(packages);
  });

  test("and troubleshooting.md name interfaces as the doctor does", () => {
    for (const command of ["ufw allow in on", "--add-interface=", "iptables -I DOCKER-USER -i"]) {
      expect(readText("docs/troubleshooting.md")).toMatch(new RegExp(`${command} ?${ANY_INTERFACE}\\+`));
    }
    expect(page).toContain(`\`${ANY_INTERFACE}<mark>-<number>\``);
  });
});

describe("troubleshooting.md", () => {
  test("explains every line of the doctor, in its order", () => {
    const rows = tableRows(readText("docs/troubleshooting.md"), ["Line", "Tests", "Usual cause of a problem"]);
    const checks = allChecks({ dataFolder: "/d", cacheFolder: "/c", guestFolder: "/g" });
    expect(rows.map(({ Line }) => Line)).toEqual(checks.map(({ name }) => name));
  });
});

describe("api.md", () => {
  const endpoints = tableRows(api, ["Endpoint", "What it does", "Auth", "Supported"]);

  test("has every route as supported, and no others", () => {
    const supported = endpoints.filter(({ Supported }) => Supported === "yes");
    const built = routes.map(({ method, path, summary, auth }) => ({
      Endpoint: `${method} ${path}`,
      "What it does": summary,
      Auth: auth,
      Supported: "yes",
    }));
    expect(supported).toEqual(built);
  });

  test("has every endpoint that is never supported, with its alternative, and no others", () => {
    const rows = tableRows(api, ["Not part of this server", "Instead"]);
    const absent = rows.map((row) => [row["Not part of this server"], row.Instead]);
    expect(absent).toEqual(Object.entries(ABSENT_ROUTES));
  });

  test("has the status of each endpoint once", () => {
    expect(endpoints.filter(({ Supported }) => Supported !== "yes")).toEqual([]);
    const names = endpoints.map(({ Endpoint }) => Endpoint);
    expect(new Set(names).size).toBe(names.length);
  });

  test("has the bounds of metadata and variables", () => {
    const bounds = tableRows(api, ["What", "Bound", "Why"]).map(({ Bound }) => Bound);
    expect(bounds).toEqual([
      `${METADATA_ENTRIES_MAX} entries, ${METADATA_MAX_BYTES} bytes of keys and values in UTF-8`,
      `${METADATA_KEY_MAX_CHARS} characters`,
      `${MCP_MAX_BYTES} bytes as JSON in UTF-8`,
      expect.stringContaining(`${ENV_VARIABLE_MAX_BYTES} bytes`),
      expect.stringContaining(`${ENV_TOTAL_MAX_BYTES} bytes`),
    ]);
  });

  test("has every field of network, and its bounds", () => {
    const fields = tableRows(api, ["In network", "Meaning"]).map((row) => row["In network"] ?? "");
    expect([...fields].sort()).toEqual(Object.keys(network.shape).sort());
    const bounds = tableRows(api, ["Of network", "Bound"]).map(({ Bound }) => Bound);
    expect(bounds).toEqual([
      String(EGRESS_ENTRIES_MAX),
      `${EGRESS_ENTRY_MAX_CHARS} characters`,
      `${PROXY_CREDENTIAL_MAX_BYTES} bytes each`,
      `${MASK_REQUEST_HOST_MAX_CHARS} characters`,
      `${HTTPS_PORTS_MAX} ports`,
    ]);
    expect(api.replace(/\s+/g, " ")).toContain(`more than ${EGRESS_CHANGES_WAITING_MAX} queued changes get 429`);
  });

  test("has the bounds of keys and tokens", () => {
    const bounds = tableRows(api, ["Of keys and tokens", "Bound"]).map(({ Bound }) => Bound);
    expect(bounds).toEqual([
      `${API_KEYS_PER_TEAM_MAX}, then 429; those of logins count`,
      `${ACCESS_TOKENS_PER_USER_MAX}, then 429`,
      `1 to ${KEY_NAME_MAX_CHARS} characters, no control character`,
    ]);
  });

  test("has the bounds of a body", () => {
    const mebibytes = (bytes: number) => `${bytes / 1024 ** 2} MiB`;
    const sentences = api.replaceAll("\n", " ");
    for (const output of [
      `at most ${mebibytes(REQUEST_BODY_MAX_BYTES)}, ${REQUEST_VALUES_MAX} values (`,
      `) and ${JSON_DEPTH_MAX} levels.`,
      `create a sandbox or start a build take ${mebibytes(REQUEST_LARGE_BODY_MAX_BYTES)}.`,
      `may have ${mebibytes(BODIES_PER_TEAM_MAX_BYTES)} of bodies under way`,
      `send ${mebibytes(BODY_BYTES_PER_TEAM_PER_SECOND)} of them each second, ${mebibytes(BODY_BYTES_PER_TEAM_BURST)} at once`,
      `longer than ${REQUEST_BODY_MS / 1000} s to arrive`,
    ]) {
      expect(sentences).toContain(output);
    }
  });

  test("names every field of a create request", () => {
    const honoured = tableRows(api, ["Honoured", "Meaning"]).map(({ Honoured }) => Honoured);
    const known = new Set([...Object.keys(createSandboxV1.shape), ...Object.keys(createSandboxV2.shape)]);
    const named = honoured.map((field) => field?.split(".")[0]);
    expect(new Set(named)).toEqual(known as Set<string | undefined>);
  });

  test("has every RPC, and marks unsupported ones", () => {
    const rows = tableRows(api, ["RPC", "Supported"]);
    const methods = [Process, Filesystem].flatMap((service) =>
      service.methods.map((method) => `${service.typeName}/${method.name}`),
    );
    expect(rows.map(({ RPC }) => RPC).sort()).toEqual(methods.sort());
    const source = readText("src/guest/filesystem/filesystem-service.ts");
    const unbuilt = [...source.matchAll(/notBuilt\("(\w+)"\)/g)].map(([, name]) => `${Filesystem.typeName}/${name}`);
    const notYet = rows.filter(({ Supported }) => Supported === "not yet").map(({ RPC }) => RPC);
    expect(notYet.sort()).toEqual(unbuilt.sort());
    expect(rows.filter(({ Supported }) => Supported === "yes")).toHaveLength(methods.length - unbuilt.length);
  });

  test("has the runtime's plain endpoints", () => {
    const source = readText("src/guest/front-door.ts");
    const served = [...source.matchAll(/^ {2}"(\/[\w/]+)": \[([^\]]+)\]/gm)].flatMap(([, path, methods = ""]) =>
      [...methods.matchAll(/\w+/g)].map(([method]) => `${method} ${path}`),
    );
    const rows = tableRows(api, ["Endpoint", "What it does", "Supported"]);
    const supported = rows.filter(({ Supported }) => Supported === "yes").map(({ Endpoint }) => Endpoint);
    expect(supported).toEqual(served);
  });

  test("gives the size of the built-in template", () => {
    const { cpuCount, memoryMB, diskSizeMB } = BASE_TEMPLATE;
    expect(api.replace(/\s+/g, " ")).toContain(`${cpuCount} CPUs, ${memoryMB} MB of memory, ${diskSizeMB} MB of disk`);
  });
});

describe("upgrade.md", () => {
  test("has the version of the store", () => {
    const [, written] = /^\| store: [^|]+\| (\d+) /m.exec(readText("docs/upgrade.md")) ?? [];
    expect(Number(written)).toBe(migrations.length);
  });
});

describe("CHANGELOG.md", () => {
  test("begins with unreleased changes, and has only the headings of Keep a Changelog", () => {
    const headings = [...readText("CHANGELOG.md").matchAll(/^##+ .+$/gm)].map(([heading]) => heading);
    const known =
      /^(?:## \[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}|### (?:Added|Changed|Deprecated|Removed|Fixed|Security))$/;
    expect(headings[0]).toBe("## [Unreleased]");
    expect(headings.slice(1).filter((heading) => !known.test(heading))).toEqual([]);
  });
});

describe("every page", () => {
  test("names commands that exist", () => {
    const { scripts } = JSON.parse(readText("package.json")) as { scripts: Record<string, string> };
    const commands = new Set(CLI_COMMANDS.map(({ usage }) => usage.split(" ")[0]));
    const unknown = pages.flatMap(({ path, text }) => {
      const npm = [...text.matchAll(/\bnpm (?:run )?(start|test|(?<=run )[\w:-]+)/g)]
        .filter(([, name = ""]) => scripts[name] === undefined)
        .map(([command]) => `${path}: ${command}`);
      const own = [...text.matchAll(/`(?:sudo )?(?:node bin\/)?sandlot ([a-z]+)/g)]
        .filter(([, name]) => name !== "help" && !commands.has(name))
        .map(([command]) => `${path}: ${command}`);
      return [...npm, ...own];
    });
    expect(unknown).toEqual([]);
    expect(readText("README.md")).toContain("`npm run bench`");
  });

  test("has no broken link", () => {
    const broken = pages.flatMap(({ path, text }) =>
      links(text)
        .filter((target) => !/^https?:/.test(target) && !leadsSomewhere(path, target))
        .map((target) => `${path}: ${target}`),
    );
    expect(broken).toEqual([]);
  });

  test("is linked from the README, or from the index of its folder", () => {
    const indexOf = (path: string) => join(dirname(path), "README.md");
    const unlinked = pages.filter(({ path }) => {
      if (path === "README.md") return false;
      const from = path === indexOf(path) ? ["README.md"] : ["README.md", indexOf(path)];
      return !from.some((index) => existsSync(join(PROJECT, index)) && linkedFrom(index).has(path));
    });
    expect(unlinked.map(({ path }) => path)).toEqual([]);
  });

  test("names files and folders that exist", () => {
    const missing = pages.flatMap(({ path, text }) =>
      [...pathsIn(text)].filter((named) => !existsSync(join(PROJECT, named))).map((named) => `${path}: ${named}`),
    );
    expect(missing).toEqual([]);
  });

  test("that code names exists", () => {
    const code = files.filter(({ path }) => /\.(?:ts|mjs|py)$/.test(path));
    const missing = code.flatMap(({ path, text }) =>
      [...text.matchAll(/(?<![\w/.-])docs\/[\w/-]+\.md/g)]
        .filter(([page]) => !existsSync(join(PROJECT, page)))
        .map(([page]) => `${path}: ${page}`),
    );
    expect(missing).toEqual([]);
  });

  test("names sources that exist, also without their folder", () => {
    const known = new Set(files.map(({ path }) => basename(path)));
    const missing = pages.flatMap(({ path, text }) =>
      [...text.matchAll(/`([\w.-]+\.(?:ts|mjs|py))`/g)]
        .filter(([, name = ""]) => !known.has(name))
        .map(([, name]) => `${path}: ${name}`),
    );
    expect(missing).toEqual([]);
  });
});

describe("no file", () => {
  /** Written in parts, so that this file does not find itself. */
  const somebodysFolder = new RegExp(`(?<![\\w}.*-])/(?:${["work"].join("|")})/`);
  const registry = new RegExp(["jfr" + "og", "arti" + "factory", "ver" + "daccio", "nex" + "us"].join("|"), "i");
  const privateHost = /https?:\/\/[\w.-]+\.(?:internal|corp|lan|intranet)\b/;

  test("names a folder of a developer's machine", () => {
    expect(matching(somebodysFolder)).toEqual([]);
  });

  test("names a private registry or host", () => {
    expect(matching(registry)).toEqual([]);
    expect(matching(privateHost)).toEqual([]);
    expect(matching(/^\s*(?:@[\w-]+:)?registry\s*=|"resolved":\s*"(?!https:\/\/registry\.npmjs\.org\/)/m)).toEqual([]);
  });

  function matching(pattern: RegExp): string[] {
    return files
      .filter(({ text }) => pattern.test(text))
      .map(({ path, text }) => `${path}: ${pattern.exec(text)?.[0]}`);
  }
});

function leadsSomewhere(from: string, target: string): boolean {
  const [file = "", anchor] = target.split("#");
  const path = file === "" ? from : normalize(join(dirname(from), file));
  if (!existsSync(join(PROJECT, path))) return false;
  return anchor === undefined || anchors(readText(path)).has(anchor);
}

/** Pages that a page links to, by their paths from the project folder. */
function linkedFrom(page: string): Set<string> {
  return new Set(links(readText(page)).map((target) => normalize(join(dirname(page), target.split("#")[0] ?? ""))));
}

/** Paths below the project's own folders, in prose and in commands. Those with a placeholder name no single file. */
function pathsIn(text: string): Set<string> {
  const named = text.matchAll(/(?<![\w/.$-])(?:src|tests|bench|bin|docs|proto)\/[\w./-]*[<*…{]?/g);
  const whole = [...named].map(([path]) => path).filter((path) => !/[<*…{]$|\bNNN\b/.test(path));
  return new Set(whole.map((path) => path.replace(/[/.]+$/, "")));
}
