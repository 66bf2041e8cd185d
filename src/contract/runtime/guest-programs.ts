/**
 * Programs of the guest's own binary, for work inside a sandbox that needs nothing of its image: no shell, no tar, no
 * useradd. The host starts them like any process, as root. Each takes one argument, its request as JSON. It prints its
 * log on stdout, one entry per line; a failure is one line on stderr and a nonzero status.
 */

/** Where the guest folder is mounted in every sandbox. Its binaries are linked for exactly this path. */
export const GUEST_MOUNT = "/.sandlot";

/** PATH of processes whose image sets none. Builds expand `$PATH` to it. */
export const PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

interface GuestPrograms {
  /** Unpacks an uploaded archive for COPY, and removes the archive even on failure. */
  unpack: UnpackRequest;
  /** Makes the root filesystem of any image what the API promises. Can be repeated. */
  provision: ProvisionRequest;
  /** For USER: creates the account unless it exists. The last line on stdout is its name. */
  "add-user": AddUserRequest;
}

export type GuestProgramName = keyof GuestPrograms;

export interface UnpackRequest {
  /** A tar file in the sandbox, gzipped or not, with the names of the client's build context. */
  archive: string;
  /** Source of COPY: a file, a folder, or a pattern, within the context. */
  source: string;
  /** Target of COPY: a folder if it ends with `/` or exists as one. */
  target: string;
  /** Base of a relative target; empty: the user's home. */
  workdir: string;
  /** Owner of the files, unless `owner` is given. */
  user: string;
  /** `name`, `name:group`, or numbers; a name alone also names the group. */
  owner: string | null;
  /** Octal. */
  mode: string | null;
}

export interface ProvisionRequest {
  /** The default account of clients. */
  user: string;
  hostname: string;
  /** Addresses of the sandbox and of its name server. */
  address: string;
  nameserver: string;
  /** Content of /.e2b; null: unchanged. */
  build: { templateId: string; buildId: string } | null;
}

export interface AddUserRequest {
  /** A name, or the number of an existing account; optionally with its own group after a colon. */
  name: string;
  /** May become root without a password. */
  sudo: boolean;
}

/** A process for the runtime's Process service. */
interface GuestProgram {
  cmd: string;
  args: string[];
  envs: Record<string, string>;
  cwd: string;
}

/** Start it as root. */
export function guestProgram<Name extends GuestProgramName>(name: Name, request: GuestPrograms[Name]): GuestProgram {
  return {
    cmd: `${GUEST_MOUNT}/bin/guest`,
    args: [name, JSON.stringify(request)],
    // The binary brings its libraries. A template's variables for programs of the image must not affect it.
    envs: { LD_LIBRARY_PATH: `${GUEST_MOUNT}/lib`, LD_PRELOAD: "", BUN_OPTIONS: "", BUN_BE_BUN: "", NODE_OPTIONS: "" },
    cwd: "/",
  };
}
