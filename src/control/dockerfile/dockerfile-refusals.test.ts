// biome-ignore-all lint/suspicious/noTemplateCurlyInString: a Dockerfile writes its variables so.
/** Refused Dockerfiles, each with its line; nothing else is ever thrown, and nothing takes long. */
import { describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { seededRandom } from "../testing/control-fixture.ts";
import { parse, refusalOf } from "../testing/dockerfiles.ts";
import { DOCKERFILE_INSTRUCTIONS_MAX, DOCKERFILE_MAX_BYTES } from "./instructions.ts";

describe("is rejected with its line:", () => {
  test.each([
    ["", "the Dockerfile has no FROM"],
    ["# nothing\n", "the Dockerfile has no FROM"],
    ["RUN a\nFROM x", "line 1: RUN before FROM"],
    ["FROM x\n\nFROM y", "line 3: a second FROM: builds of several stages are not supported"],
    ["FROM scratch", "line 1: FROM scratch"],
    ["FROM", "line 1: FROM has nothing after it"],
    ["FROM x y", "line 1: FROM takes an image"],
    ["FROM $X", "line 1: FROM uses $X"],
    ["FROM x\nCOPY a b", "line 2: COPY is not supported; there is no build context"],
    ["FROM x\n# c\nADD a b", 'line 3: ADD of "a": there is no build context'],
    ["FROM x\nADD https://h/x.git /x", "line 2: ADD of a git repository"],
    ["FROM x\nADD https://h/ /x/", "does not end in the name of a file"],
    ["FROM x\nADD https://h/a https://h/b /x", "line 2: ADD of several URLs needs a folder"],
    ["FROM x\nADD https://h/a", "line 2: ADD needs a URL and where to put it"],
    ["FROM x\nADD --unpack=true https://h/a /a", "line 2: the flag --unpack of ADD is not supported"],
    ["FROM x\nHEALTHCHECK CMD a", "line 2: HEALTHCHECK is not supported; use a ready command"],
    ["FROM x\nONBUILD RUN a", "line 2: ONBUILD is not supported"],
    ["FROM x\nVOLUME /a", "line 2: VOLUME is not supported; mount volumes"],
    ["FROM x\nFROBNICATE a", "line 2: FROBNICATE is not supported"],
    ["FROM x\nRUN --mount=type=cache,target=/a b", "line 2: the flag --mount of RUN is not supported"],
    ["FROM x\nRUN --security=insecure b", "line 2: the flag --security of RUN"],
    ["FROM x\nRUN", "line 2: RUN has nothing after it"],
    ["FROM x\nRUN []", "line 2: RUN has nothing to run"],
    ["FROM x\nRUN <<EOF\na", 'line 2: the here-document "EOF" has no end'],
    ["FROM x\nENV A", "line 2: ENV"],
    ["FROM x\nENV A=${M:-a b}", "line 2: ${M has no closing brace"],
    ["FROM x\nENV A=1 B", 'line 2: "B" has no ='],
    ["FROM x\nENV 1A=1", 'line 2: "1A" is not a variable name'],
    ["FROM x\nENV A='1", "line 2: a ' without its end"],
    ['FROM x\nENV A="1', 'line 2: a " without its end'],
    ["FROM x\nENV A=${B", "line 2: ${B has no closing brace"],
    ["FROM x\nENV A=${}", "line 2: ${ without the name"],
    ["FROM x\nENV A=${B#x}", "line 2"],
    ["FROM x\nARG N\nENV A=${N:?why}", "line 3: $N is not set: why"],
    ["FROM x\nUSER ''", "line 2: USER has no name"],
    ["FROM x\nSHELL bash", "line 2: SHELL takes a JSON list"],
    ["FROM x\nWORKDIR ''", "line 2: WORKDIR has no path"],
    ["FROM x\nRUN \0", "NUL"],
    [`FROM x\nRUN ${"a".repeat(DOCKERFILE_MAX_BYTES)}`, `at most ${DOCKERFILE_MAX_BYTES} are taken`],
    [`FROM x\n${"RUN a\n".repeat(DOCKERFILE_INSTRUCTIONS_MAX)}`, `at most ${DOCKERFILE_INSTRUCTIONS_MAX} are taken`],
    [`FROM x\nENV A=${"${A:-".repeat(20)}`, "nested deeper"],
  ])("%j", (text, message) => {
    expect(refusalOf(text)).toContain(message);
  });
});

test("an error about a very long word quotes its beginning", () => {
  const message = refusalOf(`FROM --${"x".repeat(20_000)} a`);
  expect(message).toStartWith("Dockerfile, line 1: the flag --xxxx");
  expect(message.length).toBeLessThan(1100);
});

test("any text is accepted or rejected with 400, quickly", () => {
  const random = seededRandom(7);
  const pieces = [
    ..."FROM x|RUN |ENV |ARG |ADD |COPY |WORKDIR |USER |CMD |ENTRYPOINT |SHELL |LABEL |ONBUILD ".split("|"),
    ...'<<EOF|EOF|<<-\'E\'|E|--mount=|--chown=$a|["a",|"b"]|$|${|}|:-|:+|?|#|# escape=`|`|\\|\\\n'.split("|"),
    ..."\n| |\t|\r\n|'|\"|=|a=b|https://h/x|/|/a/|[|]|\uFEFF|é|\ud800|$a|${a}|a".split("|"),
  ];
  const one = () => pieces[Math.floor(random() * pieces.length)] ?? "";
  for (let times = 0; times < 3_000; times++) {
    const text = (random() < 0.8 ? "FROM x\n" : "") + Array.from({ length: 1 + random() * 40 }, one).join("");
    try {
      parse(text);
    } catch (error) {
      if (!(error instanceof Fault) || error.status !== 400) throw new Error(`${JSON.stringify(text)}: ${error}`);
    }
  }
});

test.each([" ", "\\\n", "#\n", "<<A ", "--a ", '"a",', "$a", "${a:-", "'", "a=b ", "\n"])(
  "the longest Dockerfile of %j is parsed quickly",
  (piece) => {
    for (const keyword of ["RUN", "ENV", "ADD", "RUN a \\\n"]) {
      const begin = `FROM x\n${keyword} `;
      const text = begin + piece.repeat(Math.floor((DOCKERFILE_MAX_BYTES - begin.length) / piece.length));
      const before = process.cpuUsage();
      try {
        parse(text);
      } catch (error) {
        expect(error).toMatchObject({ status: 400 });
      }
      // Processor time, so that other work on the machine does not count.
      const { user, system } = process.cpuUsage(before);
      expect((user + system) / 1000).toBeLessThan(5_000);
    }
  },
);
