/** Shows a step in a log. */
import type { BuildStep } from "../contract/internal/host.ts";

const BUILD_COMMAND_SHOWN_CHARS = 1024;

export function stepLine(step: BuildStep): string {
  switch (step.type) {
    case "run":
      return `RUN ${shortened(step.command)}`;
    case "copy":
      return `COPY ${shortened(step.source)} ${shortened(step.target)}`;
    case "env":
      // Values may be secrets; names are not.
      return `ENV ${shortened(step.variables.map(([name]) => name).join(" "))}`;
    case "workdir":
      return `WORKDIR ${shortened(step.path)}`;
    case "user":
      return `USER ${shortened(step.name)}`;
  }
}

export function shortened(text: string): string {
  const line = text.replaceAll("\0", "\ufffd");
  return line.length > BUILD_COMMAND_SHOWN_CHARS ? `${line.slice(0, BUILD_COMMAND_SHOWN_CHARS)}…` : line;
}
