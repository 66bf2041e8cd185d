import { expect, test } from "bun:test";
import { Fault } from "./fault.ts";
import { fullImageName, parseImageName } from "./image-name.ts";

const DIGEST = `sha256:${"0123456789abcdef".repeat(4)}`;

const GOOD: Readonly<Record<string, string>> = {
  debian: "docker.io/library/debian:latest",
  "debian:13": "docker.io/library/debian:13",
  "e2bdev/base": "docker.io/e2bdev/base:latest",
  "docker.io/debian": "docker.io/library/debian:latest",
  "index.docker.io/library/debian": "docker.io/library/debian:latest",
  "registry-1.docker.io/a/b": "docker.io/a/b:latest",
  "localhost/thing": "localhost/thing:latest",
  "localhost:5000/thing": "localhost:5000/thing:latest",
  "GHCR.io/org/app:V1.0_rc-1": "ghcr.io/org/app:V1.0_rc-1",
  "10.1.2.3:05000/a/b/c/d:x": "10.1.2.3:5000/a/b/c/d:x",
  "quay.io/a/b__c.d--e_f": "quay.io/a/b__c.d--e_f:latest",
  [`debian@${DIGEST}`]: `docker.io/library/debian@${DIGEST}`,
  [`ghcr.io/a/b:1.2@${DIGEST}`]: `ghcr.io/a/b@${DIGEST}`,
};

test("names are read as docker reads them", () => {
  for (const [text, full] of Object.entries(GOOD)) expect(fullImageName(parseImageName(text))).toBe(full);
});

const BAD: Readonly<Record<string, RegExp>> = {
  "": /empty/,
  "docker://debian": /must not begin with docker:\/\//,
  "https://ghcr.io/a": /must not begin with https:\/\//,
  "de bian": /white space/,
  "debian\n": /white space/,
  Debian: /"Debian" must be of a-z0-9/,
  "a//b": /"" must be of a-z0-9/,
  "../etc": /".." is not the name of a registry/,
  "ghcr.io/../x": /".." must be of a-z0-9/,
  "-o": /"-o" must be of a-z0-9/,
  "--help/x": /"--help" must be/,
  "debian:": /tag ""/,
  "debian:-x": /tag "-x"/,
  [`debian:${"x".repeat(129)}`]: /tag/,
  "debian@sha256:12": /64 digits/,
  [`debian@sha512:${"0".repeat(128)}`]: /sha256/,
  [`debian@${DIGEST}@${DIGEST}`]: /64 digits/,
  "ghcr.io:0/a": /"0" is not a port/,
  "ghcr.io:65536/a": /"65536" is not a port/,
  "ghcr.io:/a": /"" is not a port/,
  "ghcr.io:1:2/a": /"1:2" is not a port/,
  "user:secret@ghcr.io/a": /64 digits/,
  "[::1]:5000/a": /IPv6/,
  "ghcr..io/a": /not the name of a registry/,
  "ghcr.io/": /"" must be/,
  "ghcr.io/a:b:c": /must be of a-z0-9/,
  [`a/${"b".repeat(300)}`]: /255/,
  ["x".repeat(513)]: /512/,
};

test("an invalid name is rejected with the reason", () => {
  for (const [text, reason] of Object.entries(BAD)) {
    const refused = (() => {
      try {
        return parseImageName(text);
      } catch (error) {
        return error;
      }
    })();
    expect(refused).toBeInstanceOf(Fault);
    expect((refused as Fault).status).toBe(400);
    expect((refused as Fault).message).toMatch(reason);
  }
});
