/** The trust store by its bytes; tests/functional/secrets reads one with Java. */
import { expect, test } from "bun:test";
import { javaTrustStore } from "./java-trust-store.ts";

test("a store of one certificate has the bytes that keytool writes", () => {
  const certificate = Buffer.from("certificate");
  const store = javaTrustStore([certificate]);
  const content = store.subarray(0, -20);
  expect(content.toString("hex")).toBe(
    [
      "feedfeed" + "00000002" + "00000001",
      `00000002000d${Buffer.from("certificate-1").toHex()}0000000000000000`,
      `0005${Buffer.from("X.509").toHex()}0000000b${certificate.toHex()}`,
    ].join(""),
  );
  const salt = Buffer.concat([Buffer.from("\0c\0h\0a\0n\0g\0e\0i\0t"), Buffer.from("Mighty Aphrodite")]);
  expect(store.subarray(-20).toHex()).toBe(new Bun.CryptoHasher("sha1").update(salt).update(content).digest("hex"));
});
