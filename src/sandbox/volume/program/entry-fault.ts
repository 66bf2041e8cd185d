/** Translates file system errors about an entry of a volume into errors for the client. */
import { systemCode } from "../../../base/system-code.ts";
import { Fault } from "../../../contract/fault.ts";
import { quoted } from "../../../contract/quoted-text.ts";

const CONTENT_SHOWN_PATH_MAX_CHARS = 256;

/** Whether the call expected the entry to exist or was to create it. */
type Intent = "use" | "make";

export function quotedPath(path: string): string {
  return quoted(path, CONTENT_SHOWN_PATH_MAX_CHARS);
}

export function entryFault(path: string, thrown: unknown, intent: Intent): Fault {
  if (thrown instanceof Fault) return thrown;
  // The client has disconnected, so it never sees this error.
  if (thrown instanceof Error && thrown.name === "AbortError") return new Fault(400, "the upload was interrupted");
  const code = systemCode(thrown);
  const shown = quotedPath(path);
  const because = (status: number, message: string) => new Fault(status, message, { cause: thrown });
  switch (code) {
    case "ENOENT":
      if (intent === "use") return because(404, `${shown} does not exist in this volume`);
      return because(404, `the folder of ${shown} does not exist in this volume; force: true makes it`);
    case "ENOTDIR":
      if (intent === "use") return because(404, `${shown} does not exist in this volume: a part of it is not a folder`);
      return because(400, `a part of ${shown} exists and is not a folder`);
    case "EEXIST":
      return because(
        409,
        `${shown} already exists; force: true takes its place, or takes it as it is if it is a folder`,
      );
    case "EISDIR":
      return because(400, `${shown} is a folder`);
    case "ENOSPC":
    case "EDQUOT":
      return because(507, `the volume is full; ${shown} could not be written`);
    case "ELOOP":
      return because(400, `the symbolic links of ${shown} lead back to themselves`);
    case "ENAMETOOLONG":
      return because(400, `the path ${shown} is too long`);
    case "EROFS":
      return because(503, `the volume can only be read since an error of its filesystem; ${shown} was not changed`);
    case "":
      return Fault.from(thrown);
    default:
      return because(500, `${shown} of this volume could not be used: ${code}`);
  }
}
