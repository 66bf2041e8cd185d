/** Parses Dockerfiles for tests. */
import { expect } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import type { BuildStep } from "../../contract/internal/host.ts";
import { parseDockerfile } from "../dockerfile/dockerfile.ts";

export const parse = (text: string) => parseDockerfile(text, "arm64");
export const ROOT: BuildStep = { type: "user", name: "root", sudo: false, force: false };
export const TOP: BuildStep = { type: "workdir", path: "/", force: false };
export const USER: BuildStep = { type: "user", name: "user", sudo: false, force: false };
export const HOME: BuildStep = { type: "workdir", path: "/home/user", force: false };

/** The steps of the lines after FROM, without those that every Dockerfile begins and ends with. */
export function stepsOf(...lines: string[]) {
  const { steps } = parse(["FROM debian", ...lines].join("\n"));
  return steps.slice(2).filter((step) => !Bun.deepEquals(step, USER) && !Bun.deepEquals(step, HOME));
}

export function commandsOf(...lines: string[]): string[] {
  return stepsOf(...lines).flatMap((step) => (step.type === "run" ? [step.command] : []));
}

export function envOf(...lines: string[]): (readonly [string, string])[] {
  return stepsOf(...lines).flatMap((step) => (step.type === "env" ? step.variables : []));
}

export function startOf(...lines: string[]): string | null {
  return parse(["FROM debian", ...lines].join("\n")).startCommand;
}

export function refusalOf(text: string): string {
  try {
    parse(text);
  } catch (error) {
    expect(error).toBeInstanceOf(Fault);
    expect(error).toMatchObject({ status: 400 });
    return (error as Fault).message;
  }
  throw new Error(`nothing is refused in ${JSON.stringify(text)}`);
}
