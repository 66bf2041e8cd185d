/** Fuzzes the parser of Dockerfiles, which any caller with build rights can send. */
import { expect } from "bun:test";
import { fuzzText, orRefused } from "../../base/testing/fuzz.ts";
import { parse } from "../testing/dockerfiles.ts";
import { DOCKERFILE_MAX_BYTES } from "./instructions.ts";

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: it is what people write.
const SEEDS = [
  "# escape=`\nFROM debian:13\nENV A=b C=\"d e\" F='g'\nRUN echo $A ${C:-x} && \\\n  # a comment\n  true\n",
  'ARG TAG=13\nFROM --platform=$TARGETPLATFORM debian:${TAG} AS base\nSHELL ["/bin/bash", "-c"]\nRUN <<EOF\necho 1\nEOF\n',
  'FROM a\nADD --chown=1:2 --chmod=644 https://x.test/f /to/\nWORKDIR /a/$B\nUSER u:g\nENTRYPOINT ["a"]\nCMD ["b", "c"]',
  "FROM a\nENV A=${B:-${C:+${D:?x}}}\nENV X=$X$X\nENV Y=$X$X\nARG Z\nRUN --network=default x\nEXPOSE 80\nLABEL a=b",
  "FROM a\nRUN cat <<-'E' 3<<F\n\ta\n\tE\nb\nF\nHEALTHCHECK CMD x\nONBUILD RUN x\nVOLUME /x\nCOPY a b",
];
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: it is what people write.

fuzzText("a Dockerfile becomes steps, or is rejected with a line number", {
  seeds: SEEDS,
  check(text) {
    const read = orRefused(() => parse(text));
    if (read === undefined) return;
    expect(read.from).not.toMatch(/\s/);
    const bytes = JSON.stringify(read).length;
    // A line may repeat earlier text, but no more than variables can hold.
    expect(bytes).toBeLessThan(2 ** 24);
  },
  cases: 700,
});

fuzzText("the time to parse a Dockerfile is linear in its length", {
  seeds: SEEDS,
  check(text, random) {
    const piece = text.slice(random.below(text.length + 1), random.below(text.length + 1) + 40) || "\\\n";
    orRefused(() =>
      parse(
        `FROM a\nRUN ${piece.repeat(Math.floor(DOCKERFILE_MAX_BYTES / Buffer.byteLength(piece)))}`.slice(0, 20_000),
      ),
    );
  },
  cases: 15,
});
