/**
 * Passwords of users, as argon2id hashes. A hash takes memory, so only few are computed at once and few may wait. An
 * unknown user takes as long as a wrong password.
 */
import { Semaphore } from "../../base/semaphore.ts";
import { Fault } from "../../contract/fault.ts";
import type { User } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import { type Recording, record } from "../audit/audit.ts";
import { aboutUser } from "./people.ts";

export const PASSWORD_MIN_CHARS = 12;
export const PASSWORD_MAX_CHARS = 256;
/** 64 MiB and three passes: the second recommendation of RFC 9106. */
const HASHING = { algorithm: "argon2id", memoryCost: 65_536, timeCost: 3 } as const;
/** One uses a processor for a third of a second: a flood of logins leaves the others to sandboxes. */
const HASHES_AT_ONCE = 1;
export const PASSWORD_CHECKS_MAX = 16;
/** Beyond these, for people whose browser is known: a flood of strangers does not shut them out. */
export const KNOWN_PASSWORD_CHECKS_MAX = 4;
/** Compared for unknown users, so that they take as long as a wrong password: a random one, hashed at the same cost. */
const DUMMY_HASH =
  "$argon2id$v=19$m=65536,t=3,p=1$8dVWOcixDLxgm4yY+VTBBj5vMyuC1L5qAah0vHqyEeQ$HUQBFnCDrDMVN7d+u4O/wYYgqv0JZjSmMF7QPZirVNw";

interface PasswordServices extends Recording {
  store: Store;
}

/** Ends the user's logins, which the old password began. */
export async function setPassword(services: PasswordServices, user: User, password: string): Promise<void> {
  const { store, clock } = services;
  const length = password.length;
  if (length < PASSWORD_MIN_CHARS || length > PASSWORD_MAX_CHARS) {
    throw new Fault(
      400,
      `a password must have ${PASSWORD_MIN_CHARS} to ${PASSWORD_MAX_CHARS} characters, this one has ${length}`,
    );
  }
  const hash = await Bun.password.hash(password, HASHING);
  await store.transaction(async (tables) => {
    await tables.logins.setPassword(user.id, hash, clock.now());
    await tables.logins.removeOfUser(user.id);
    await record(tables, services, { teamId: null, object: passwordOf(user) });
  });
}

/** Ends the user's logins too. False: there was no password. */
export function removePassword(services: PasswordServices, user: User): Promise<boolean> {
  return services.store.transaction(async (tables) => {
    await tables.logins.removeOfUser(user.id);
    await record(tables, services, { teamId: null, object: passwordOf(user) });
    return tables.logins.removePassword(user.id);
  });
}

/** The password's name in the audit log. */
export function passwordOf(user: User): string {
  return `password of ${aboutUser(user)}`;
}

export class Passwords {
  readonly #permits = new Semaphore(HASHES_AT_ONCE);
  #waiting = 0;

  constructor(
    private readonly store: Store,
    private readonly verify: (password: string, hash: string) => Promise<boolean> = Bun.password.verify,
  ) {}

  /** Undefined: the user or the password is wrong. Fault 503 when too many are being checked. */
  async userOf(
    email: string,
    password: string,
    { isKnown = false }: { isKnown?: boolean } = {},
  ): Promise<{ user: User; hash: string } | undefined> {
    if (password === "") return undefined;
    if (this.#waiting >= PASSWORD_CHECKS_MAX + (isKnown ? KNOWN_PASSWORD_CHECKS_MAX : 0)) {
      throw new Fault(503, "too many passwords are being checked; try again in a moment", {
        retryAfterSeconds: 5,
      });
    }
    this.#waiting++;
    try {
      using _permit = await this.#permits.acquire();
      const user = await this.store.people.userByEmail(email.toLowerCase());
      const hash = user === undefined ? null : await this.store.logins.passwordHash(user.id);
      const isRight = await this.verify(password.slice(0, PASSWORD_MAX_CHARS), hash ?? DUMMY_HASH);
      if (user === undefined || hash === null || !isRight || password.length > PASSWORD_MAX_CHARS) return undefined;
      return { user, hash };
    } finally {
      this.#waiting--;
    }
  }
}
