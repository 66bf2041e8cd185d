/**
 * An empty repository as `restic init` makes it, but with a key that is derived in no time: scrypt with N = 2. restic
 * asks for half a second of scrypt at every call, and a backup consists of many calls. The password is PASSWORD.
 */
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const PASSWORD = "secret";

const CONFIG =
  "4uGrWGwdE+JmSuAk2xsJUncvw2/32p0MfktT3UQEh1kg7/Oy+Th4pvfPY8oTNqEmDBnimuQi487zVH/J4oJZndT9PeuGgpth+B/w" +
  "yZ8tYz6w9CoKFncIwnyngjGnriDSQCDx5liWs2d+LGujK1RSSvf9ekmQciwexQzM/MgK837I1Lf0TtNps7J1D4k+pSp6uJm92Fy6" +
  "L1RStgI=";
const KEY = {
  created: "2026-11-19T00:00:00Z",
  username: "",
  hostname: "",
  kdf: "scrypt",
  N: 2,
  r: 1,
  p: 1,
  salt: "6zaGBdxy6Ub2n1J01617qRaSfTt6K5623GnpHjuv/MBqENS5XsACS96CtN3NsNcmqNp2VQ+bZFapMliDzL5x3w==",
  data:
    "S6jsUmAOv9Nfs172+VmlWTTAJTA0X9Kr6t9dNhYhAHOHGN+iQUTp4Mxshrd2dA4n+aMZzrjzAUs2pct032Sgcc3AHPbzzLok1itn" +
    "vbibQD3IzjVXT5xuqC5aTSiJKsDgHtUmoRuq1Ns1ZwBi7jXwOCkHm3QTgjL27bp3nH/r7Ypx87KVOiKwVunVxm+hGntQjPX2i8GU" +
    "QCcABlNLZSgE8w==",
};

export function makeQuickRepository(folder: string): void {
  for (const name of ["data", "index", "keys", "locks", "snapshots"])
    mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, "config"), Buffer.from(CONFIG, "base64"));
  const key = JSON.stringify(KEY);
  writeFileSync(join(folder, "keys", createHash("sha256").update(key).digest("hex")), key);
}
