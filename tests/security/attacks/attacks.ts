/**
 * The attacks that the project must withstand, by number. Attacks from inside are attempts of the program in the folder
 * `inside`, under the same numbers; the others are tests, named here by file and title. attack-table.ts makes the table
 * in docs/security.md from this list and the findings.
 */
import { ATTACKS_FROM_INSIDE } from "./attacks-from-inside.ts";
import { ATTACKS_ON_SECRETS } from "./attacks-on-secrets.ts";
import { ATTACKS_ON_SERVER } from "./attacks-on-server.ts";

/** A file, and the title of a test or of a group of tests in it. */
type Reference = readonly [file: string, title: string];

export interface Attack {
  number: number;
  /** The attack, as named in the table. */
  name: string;
  /** The program in tests/security/attacks/inside has attempts for it. */
  inside?: true;
  tests?: readonly Reference[];
  /** The isolation runtime makes no difference: the attack is on the server, or on what surrounds every sandbox. */
  either?: true;
  /** Its sandbox tests run behind both isolation runtimes, if they are in tests/security/network-isolation.ts. */
  behindBoth?: true;
  /** Its tests with runsc, where the others are of sandboxes with crun. */
  behindRunsc?: readonly Reference[];
  /** The part of the attack that is not held, and why: for both isolation runtimes. */
  open?: string;
  /** Why an attempt that succeeds under runsc is no attack on the machine. */
  underRunsc?: string;
  /** Why it cannot be tried here. */
  notApplicable?: string;
}

/** In the order of their numbers. */
export const ATTACKS: readonly Attack[] = [...ATTACKS_FROM_INSIDE, ...ATTACKS_ON_SERVER, ...ATTACKS_ON_SECRETS];
