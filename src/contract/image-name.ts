/**
 * Parses the name of a registry image as `docker pull` does: `[registry[:port]/]repository[:tag][@digest]`. The default
 * registry is docker.io, where a repository of one word is below `library/`.
 */
import { Fault } from "./fault.ts";
import { quoted } from "./quoted-text.ts";

export interface ImageName {
  /** `docker.io`, `ghcr.io`, `registry.example:5000` … */
  registry: string;
  /** `library/debian` */
  repository: string;
  tag: string | null;
  /** `sha256:` and 64 hexadecimal digits. A digest overrides a tag, so a name with both has no tag. */
  digest: string | null;
}

const DOCKER_HUB = "docker.io";
/** Other names of the same registry. */
const DOCKER_HUB_ALIASES = new Set(["index.docker.io", "registry-1.docker.io"]);
const NAME_MAX_CHARS = 512;
const REPOSITORY_MAX_CHARS = 255;

const DOMAIN = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/;
const PATH_PART = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;

/** Fault 400 that says what is wrong with the name. */
export function parseImageName(text: string): ImageName {
  const refuse = (reason: string) => new Fault(400, `the image name ${quoted(text)} is not valid: ${reason}`);
  if (text === "") throw refuse("it is empty. An example: debian:13");
  if (text.length > NAME_MAX_CHARS) throw refuse(`it has ${text.length} characters, ${NAME_MAX_CHARS} are allowed`);
  const scheme = /^[a-z+-]+:\/\//i.exec(text)?.[0];
  if (scheme !== undefined) throw refuse(`it must not begin with ${scheme}`);
  if (/\s/.test(text)) throw refuse("it has white space in it");

  const [named, digest = null, ...more] = text.split("@") as [string, ...string[]];
  if (more.length > 0 || (digest !== null && !DIGEST.test(digest))) {
    throw refuse("what follows @ must be sha256: and 64 digits of 0-9a-f");
  }
  const { registry, rest } = splitRegistry(named, refuse);
  const colon = rest.lastIndexOf(":");
  const path = colon < 0 ? rest : rest.slice(0, colon);
  const tag = colon < 0 ? null : rest.slice(colon + 1);
  if (tag !== null && !TAG.test(tag)) {
    throw refuse(`the tag ${quoted(tag)} must be 1 to 128 of A-Za-z0-9_.- and begin with neither . nor -`);
  }
  const repository = registry === DOCKER_HUB && !path.includes("/") ? `library/${path}` : path;
  for (const part of path.split("/")) {
    if (!PATH_PART.test(part)) throw refuse(`${quoted(part)} must be of a-z0-9, with . _ __ or - between them`);
  }
  if (repository.length > REPOSITORY_MAX_CHARS) {
    throw refuse(`the repository has ${repository.length} characters, ${REPOSITORY_MAX_CHARS} are allowed`);
  }
  return { registry, repository, tag: digest === null ? tag : null, digest };
}

/** The first part is a registry only if it cannot be anything else. */
function splitRegistry(named: string, refuse: (reason: string) => Fault): { registry: string; rest: string } {
  const slash = named.indexOf("/");
  const first = slash < 0 ? "" : named.slice(0, slash);
  if (first !== "localhost" && !/[.:[]/.test(first)) return { registry: DOCKER_HUB, rest: named };
  const rest = named.slice(slash + 1);
  if (first.startsWith("["))
    throw refuse("registries are not reached by IPv6 addresses; use a name or an IPv4 address");
  const [host, port, ...more] = first.toLowerCase().split(":") as [string, ...string[]];
  if (!DOMAIN.test(host)) throw refuse(`${quoted(host)} is not the name of a registry`);
  if (
    more.length > 0 ||
    (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535))
  ) {
    throw refuse(`${quoted(first.slice(host.length + 1))} is not a port; it must be a number from 1 to 65535`);
  }
  const registry = port === undefined ? host : `${host}:${Number(port)}`;
  return { registry: DOCKER_HUB_ALIASES.has(registry) ? DOCKER_HUB : registry, rest };
}

/** With all defaults, such as `docker.io/library/debian:latest`. */
export function fullImageName({ registry, repository, tag, digest }: ImageName): string {
  return `${registry}/${repository}${digest === null ? `:${tag ?? "latest"}` : `@${digest}`}`;
}
