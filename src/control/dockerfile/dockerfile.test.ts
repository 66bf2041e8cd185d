// biome-ignore-all lint/suspicious/noTemplateCurlyInString: a Dockerfile writes its variables so.
/** Which steps, image and start command a Dockerfile becomes. */
import { describe, expect, test } from "bun:test";
import {
  commandsOf,
  envOf,
  HOME,
  parse,
  ROOT,
  refusalOf,
  startOf,
  stepsOf,
  TOP,
  USER,
} from "../testing/dockerfiles.ts";

test("a Dockerfile without steps is its image with the default user and folder", () => {
  expect(parse("FROM debian:12")).toEqual({ from: "debian:12", steps: [ROOT, TOP, USER, HOME], startCommand: null });
});

test("each instruction is a step, in order", () => {
  const { from, steps, startCommand } = parse(
    [
      "# syntax=docker/dockerfile:1",
      "ARG TAG=12",
      "FROM debian:${TAG} AS only",
      "LABEL a=b",
      "MAINTAINER somebody",
      "EXPOSE 80/tcp",
      "STOPSIGNAL SIGTERM",
      "ENV A=1 B='2 3'",
      "WORKDIR /app",
      "RUN apt-get update && apt-get install -y curl",
      "USER app",
      'CMD ["python3", "-m", "http.server"]',
    ].join("\n"),
  );
  expect(from).toBe("debian:12");
  expect(steps).toEqual([
    ROOT,
    TOP,
    {
      type: "env",
      variables: [
        ["A", "1"],
        ["B", "2 3"],
      ],
      force: false,
    },
    { type: "workdir", path: "/app", force: false },
    { type: "run", command: "apt-get update && apt-get install -y curl", user: null, force: false },
    { type: "user", name: "app", sudo: false, force: false },
  ]);
  expect(startCommand).toBe("python3 -m http.server");
});

describe("lines", () => {
  test.each([
    ["continued", "RUN a \\\n  b", "a   b"],
    ["with a comment between", "RUN a \\\n # no\n#no\n  && b", "a   && b"],
    ["with empty lines between", "RUN a \\\n\n\n  b", "a   b"],
    ["with white space after the backslash", "RUN a \\  \n b", "a  b"],
    ["with a backslash at the very end", "RUN a \\", "a"],
    ["of Windows", "RUN a \\\r\n b\r\n", "a  b"],
    ["in lower case", "run a", "a"],
    ["with a # that begins no comment", "RUN echo '# no' #yes", "echo '# no' #yes"],
    ["with a byte order mark elsewhere", "RUN echo \uFEFFx", "echo \uFEFFx"],
  ])("%s", (_, text, command) => {
    expect(commandsOf(text)).toEqual([command]);
  });

  test("the escape directive changes the character", () => {
    const { steps } = parse("# escape=`\nFROM x\nRUN a `\n  C:\\b\nENV P=`$x\n");
    expect(steps.slice(2, 4)).toEqual([
      { type: "run", command: "a   C:\\b", user: null, force: false },
      { type: "env", variables: [["P", "\\$x"]], force: false },
    ]);
  });
});

describe("RUN", () => {
  test.each([
    ["the exec form", 'RUN ["echo", "a b", "it\'s", "$x"]', "echo 'a b' 'it'\\''s' '$x'"],
    ["a bracket that is no JSON", "RUN [ -e /etc ] && echo yes", "[ -e /etc ] && echo yes"],
    ["variables, which are the shell's", "RUN echo $HOME ${X:-y} \\$z", "echo $HOME ${X:-y} \\$z"],
    ["the default network", "RUN --network=default a", "a"],
  ])("%s", (_, text, command) => {
    expect(commandsOf(text)).toEqual([command]);
  });

  test("a here-document is a shell script", () => {
    expect(commandsOf("RUN <<EOF", "echo a", "echo $B \\", "  c", "# no comment", "EOF", "RUN b")).toEqual([
      "echo a\necho $B \\\n  c\n# no comment\n",
      "b",
    ]);
  });

  test("a here-document may strip tabs, and may be empty", () => {
    expect(commandsOf("RUN <<-EOF", "\techo a", "\tEOF")).toEqual(["echo a\n"]);
    expect(commandsOf('RUN <<"EOF"', "EOF", "RUN b")).toEqual(["", "b"]);
  });

  test("here-documents that a command reads stay in the command", () => {
    expect(commandsOf("RUN cat <<A >x && cat <<-'B'", "1", "A", "\t2", "\tB", "RUN b")).toEqual([
      "cat <<A >x && cat <<-'B'\n1\nA\n\t2\n\tB",
      "b",
    ]);
  });

  test("a here-document with a shebang is run by its interpreter", async () => {
    const [command = ""] = commandsOf("RUN <<EOF", "#!/bin/cat", "it's $x", "EOF");
    const run = Bun.spawn(["/bin/sh", "-c", command], { stdout: "pipe" });
    expect(await new Response(run.stdout).text()).toBe("#!/bin/cat\nit's $x\n");
    expect(await run.exited).toBe(0);
  });

  test("SHELL changes the shell of RUN and CMD", () => {
    const lines = ['SHELL ["/bin/bash", "-o", "pipefail", "-c"]', "RUN a | b", 'RUN ["c"]', "CMD d e"];
    expect(commandsOf(...lines)).toEqual(["/bin/bash -o pipefail -c 'a | b'", "c"]);
    expect(startOf(...lines)).toBe("/bin/bash -o pipefail -c 'd e'");
  });
});

describe("variables", () => {
  test("of ARG are set for commands, and not in the image", async () => {
    const lines = ['ARG A="it\'s" B', "ARG C=$A-c", 'RUN echo "$A $B $C"'];
    expect(envOf(...lines)).toEqual([]);
    const run = Bun.spawn(["/bin/sh", "-c", commandsOf(...lines)[0] ?? ""], { stdout: "pipe" });
    expect(await new Response(run.stdout).text()).toBe("it's  it's-c\n");
  });

  test("of ARG before FROM are set after it only if declared again", () => {
    const parsed = parse("ARG A=1\nARG B=2\nFROM x:$A\nARG A\nENV GOT=$A\n");
    expect([parsed.from, parsed.steps[2]]).toEqual(["x:1", { type: "env", variables: [["GOT", "1"]], force: false }]);
    expect(refusalOf("ARG B=2\nFROM x\nADD http://h/$B /b")).toContain("line 3: ADD uses $B");
  });

  test("ENV wins over ARG", () => {
    const [added, run] = commandsOf("ENV A=env", "ARG A=arg", "ADD http://h.test/x /$A", "RUN x");
    expect([added, run]).toEqual([expect.stringContaining("\nfile=/env\n"), "x"]);
  });

  test.each([
    [
      "ENV A=1 B=$A",
      [
        ["A", "1"],
        ["B", "${A}"],
      ],
    ],
    ["ENV A a  b", [["A", "a  b"]]],
    ['ENV A "a b" c', [["A", "a b c"]]],
    [
      "ENV A=a\\ b C=\"d e\"'f'g",
      [
        ["A", "a b"],
        ["C", "d efg"],
      ],
    ],
    [
      "ENV A='$x' B=\"\\$x\" C=\\$x D=$",
      [
        ["A", "\\$x"],
        ["B", "\\$x"],
        ["C", "\\$x"],
        ["D", "\\$"],
      ],
    ],
    ['ENV A="a\\\\b\\c"', [["A", "a\\b\\c"]]],
    ["ENV PATH=$PATH:/x", [["PATH", "${PATH}:/x"]]],
  ] as [string, [string, string][]][])("%s", (text, variables) => {
    expect(envOf(text)).toEqual(variables);
  });

  test("with a default or an alternative are resolved by the host if the base image may set them", () => {
    expect(envOf('ENV L=/x${L:+:$L} M="${M:-a b}"')).toEqual([
      ["L", "/x${L:+:${L}}"],
      ["M", "${M:-a b}"],
    ]);
  });

  test.each([
    ["${S:-d}", "s"],
    ["${S:+d}", "d"],
    ["${E:-d}", "d"],
    ["${E-d}", ""],
    ["${E:+d}", ""],
    ["${E+d}", "d"],
    ["${N:-d}", "d"],
    ["${N-d}", "d"],
    ["${N+d}", ""],
    ["${N:-${S}x}", "sx"],
    ["$S$S-$S", "ss-s"],
    ["${S?no}", "s"],
    ["$N", ""],
  ])("%s is %j, as with Docker", (written, expanded) => {
    expect(envOf("ARG S=s", "ARG E=", "ARG N", `ENV X=x${written}`)).toEqual([["X", `x${expanded}`]]);
    const [added] = commandsOf("ENV S=s E=", "ARG N", `ADD http://h.test/x /u${written}`);
    expect(added).toContain(`\nfile=/u${expanded}\n`);
  });

  test("all of one ENV see the values from before it", () => {
    expect(commandsOf("ENV A=1", "ENV A=2 B=$A", "ADD http://h.test/x /$A$B")[0]).toContain("\nfile=/21\n");
  });

  test("of the base image are resolved by the host in paths and users, too", () => {
    expect(stepsOf("ARG B=b", "WORKDIR $GOPATH/$B/\\$x", "USER ${APP_USER:-app}", "USER 1000:$B")).toEqual([
      { type: "workdir", path: "${GOPATH}/b/\\$x", force: false },
      { type: "user", name: "${APP_USER:-app}", sudo: false, force: false },
      { type: "user", name: "1000:b", sudo: false, force: false },
    ]);
  });

  test("of the base image are rejected where the parser needs their value, also indirectly", () => {
    expect(refusalOf("FROM x\nENV A=$BASE\nADD http://h/x /$A")).toContain("line 3: ADD uses $A");
    expect(refusalOf("FROM x\nARG A=$BASE")).toContain("line 2: ARG uses $BASE");
  });

  test("cannot fill the memory", () => {
    const doubling = Array.from({ length: 40 }, (_, nth) => `ARG A${nth + 1}=$A${nth}$A${nth}`);
    expect(refusalOf(["FROM x", "ARG A0=aaaaaaaa", ...doubling].join("\n"))).toContain("more than 131072 characters");
  });

  test("of the platform have values once they are declared", () => {
    expect(envOf("ARG TARGETARCH", "ENV X=$TARGETARCH")).toEqual([["X", "arm64"]]);
    expect(parse("FROM --platform=$BUILDPLATFORM x").from).toBe("x");
    expect(refusalOf("FROM --platform=linux/amd64 x")).toContain('"linux/amd64" is not supported; this server has');
  });
});

describe("the start command", () => {
  test.each([
    [["CMD a b"], "a b"],
    [['CMD ["a", "b c"]'], "a 'b c'"],
    [["CMD []"], null],
    [["CMD a", "CMD b"], "b"],
    [['ENTRYPOINT ["a", "x y"]'], "a 'x y'"],
    [['ENTRYPOINT ["a"]', 'CMD ["b", "c d"]'], "a b 'c d'"],
    [['CMD ["b"]', 'ENTRYPOINT ["a"]'], "a b"],
    [['ENTRYPOINT ["a"]', "CMD b c"], "a /bin/sh -c 'b c'"],
    [["ENTRYPOINT a $X", 'CMD ["b"]'], "a $X"],
    [["ENTRYPOINT []", "CMD b"], "b"],
  ] as [string[], string | null][])("of %j is %j", (lines, command) => {
    expect(startOf(...lines)).toBe(command);
  });
});

describe("ADD of a URL", () => {
  async function fetched(line: string, tools: Record<string, string>) {
    const [step] = stepsOf(line);
    if (step?.type !== "run") throw new Error("no command");
    const functions = Object.entries(tools).map(([name, body]) => `${name}() { ${body}; }`);
    const quiet = ["mkdir", "chown", "chmod"].map((name) => `${name}() { echo ${name} "$@"; }`);
    const hidden = 'command() { [ "$1" = -v ] && case " $tools " in *" $2 "*) return 0;; esac; return 1; }';
    const script = [`tools="${Object.keys(tools).join(" ")}"`, hidden, ...quiet, ...functions, step.command].join("\n");
    const run = Bun.spawn(["/bin/bash", "-c", script], { stdout: "pipe", stderr: "pipe" });
    const [out, err] = [await new Response(run.stdout).text(), await new Response(run.stderr).text()];
    return { user: step.user, lines: `${out}${err}`.trim().split("\n"), status: await run.exited };
  }

  test("is fetched with curl, as root, for root alone", async () => {
    expect(await fetched("ADD https://h.test/a/b.txt /opt/x/", { curl: 'echo curl "$@"' })).toEqual({
      user: "root",
      lines: [
        "mkdir -p -- /opt/x",
        "curl -fsSL -o /opt/x/b.txt -- https://h.test/a/b.txt",
        "chown -- 0:0 /opt/x/b.txt",
        "chmod -- 600 /opt/x/b.txt",
      ],
      status: 0,
    });
  });

  test("is fetched with wget if there is no curl, and fails with a clear error if there is neither", async () => {
    const line = "ADD --chown=me --chmod=755 https://h.test/q?a='b' 'file name'";
    expect((await fetched(line, { wget: 'echo wget "$@"' })).lines).toEqual([
      "mkdir -p -- .",
      "wget -q -O file name -- https://h.test/q?a=b",
      "chown -- me file name",
      "chmod -- 755 file name",
    ]);
    const { status, lines } = await fetched(line, {});
    expect([status, lines.at(-1)]).toEqual([1, expect.stringContaining("needs curl or wget in the image")]);
  });

  test("is verified by its checksum, and fails the step if it cannot be fetched", async () => {
    const line = `ADD --checksum=sha256:${"a".repeat(64)} http://h.test/x /x`;
    const sums = { curl: "true", sha256sum: "cat; return 1" };
    expect((await fetched(line, sums)).status).toBe(1);
    expect((await fetched("ADD http://h.test/x /x", { curl: "return 22" })).status).toBe(22);
  });

  test("with several URLs is one step each", () => {
    expect(commandsOf('ADD ["http://h.test/a", "http://h.test/b", "/x/"]')).toHaveLength(2);
  });
});
