/**
 * Programs of the guest's own binary: work inside a sandbox that needs nothing of its image, no shell, no tar, no
 * useradd. The host starts them like any process, as root. Each takes one argument, its request as JSON. It prints what
 * is worth telling on stdout, a line each; a failure is one line on stderr and a status that is not 0.
 */

/** Where the guest folder appears inside every sandbox. Binaries in it are linked for exactly this place. */
export const GUEST_MOUNT = "/.sandlot";

interface GuestPrograms {
  /** Puts an uploaded archive where COPY wants it, and removes the archive, also when that fails. */
  unpack: UnpackRequest;
  /** Makes the root filesystem of any image what the interface promises. Can be repeated. */
  provision: ProvisionRequest;
  /** For USER: makes the account unless there is one. The last line on stdout is its name. */
  "add-user": AddUserRequest;
}

export type GuestProgramName = keyof GuestPrograms;

export interface UnpackRequest {
  /** A tar file in the sandbox, gzipped or not, with names as the client's context has them. */
  archive: string;
  /** As COPY names it: a file, a folder, or a pattern, within the context. */
  source: string;
  /** As COPY names it: with `/` at its end, or if it is a folder already, what is copied goes into it. */
  target: string;
  /** What a relative target is relative to; empty is the user's home. */
  workdir: string;
  /** Whose files they become, unless there is an owner. */
  user: string;
  /** `name`, `name:group`, or numbers; a name alone is also its group. */
  owner: string | null;
  /** Octal. */
  mode: string | null;
}

export interface ProvisionRequest {
  /** The account that clients use if they name none. */
  user: string;
  hostname: string;
  /** Of the sandbox itself, and of its name server. */
  address: string;
  nameserver: string;
  /** What /.e2b says; null leaves it as it is. */
  build: { templateId: string; buildId: string } | null;
}

export interface AddUserRequest {
  /** A name; or the number of an account that exists. Either with its own group behind a colon. */
  name: string;
  /** May become root without a password. */
  sudo: boolean;
}

/** A process as the runtime's Process service takes it. */
interface GuestProgram {
  cmd: string;
  args: string[];
  envs: Record<string, string>;
  cwd: string;
}

/** To be started as root. */
export function guestProgram<Name extends GuestProgramName>(name: Name, request: GuestPrograms[Name]): GuestProgram {
  return {
    cmd: `${GUEST_MOUNT}/bin/guest`,
    args: [name, JSON.stringify(request)],
    // Its libraries come with it. What a template's variables say to programs of the image is not meant for it.
    envs: { LD_LIBRARY_PATH: `${GUEST_MOUNT}/lib`, LD_PRELOAD: "", BUN_OPTIONS: "", BUN_BE_BUN: "", NODE_OPTIONS: "" },
    cwd: "/",
  };
}
