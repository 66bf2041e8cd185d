/** Keys that sign the tokens of workload identities. The newest ones sign; older ones stay readable for a while. */
import type { Statement } from "./engine.ts";
import { INTEGER, type Stored, Table, TEXT } from "./table.ts";

const signingKeys = new Table({
  /** The `kid` of its tokens. */
  id: TEXT,
  /** As a JWK. */
  publicKey: TEXT,
  /** The encrypted private key, and the id of the key that opens it. */
  sealed: TEXT,
  keyId: TEXT,
  createdAt: INTEGER,
});
export type SigningKey = Stored<typeof signingKeys>;

export function signingKeysIn(sql: Statement) {
  const { all, count, execute } = signingKeys.over(sql);
  return {
    add: (key: SigningKey) => execute`INSERT INTO signing_keys ${signingKeys.values(key)}`,
    /** Newest first. */
    list: (limit: number) => all`SELECT * FROM signing_keys ORDER BY created_at DESC, id LIMIT ${limit}`,
    removeBefore: (time: number) => execute`DELETE FROM signing_keys WHERE created_at < ${time}`,
    /** Keys that this key does not open. */
    sealedOtherwise: (keyId: string, limit: number) => all`SELECT * FROM signing_keys
        WHERE key_id <> ${keyId} ORDER BY id LIMIT ${limit}`,
    /** Returns how many. */
    removeSealedOtherwise: (keyId: string) => count`DELETE FROM signing_keys WHERE key_id <> ${keyId}`,
    reseal: (key: SigningKey, to: Pick<SigningKey, "sealed" | "keyId">) => execute`UPDATE signing_keys
        SET sealed = ${to.sealed}, key_id = ${to.keyId} WHERE id = ${key.id} AND key_id = ${key.keyId}`,
  };
}
