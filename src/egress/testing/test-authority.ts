/** Certificate authorities of tests, with the openssl program. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../system/command.ts";

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256"];

export class TestAuthority implements Disposable {
  private constructor(
    readonly folder: string,
    readonly certificatePem: string,
    /** The key of all certificates that it signs. */
    readonly leafKeyPem: string,
  ) {}

  static async open(): Promise<TestAuthority> {
    const folder = mkdtempSync(join(tmpdir(), "sandlot-authority-"));
    const own = ["-subj", "/CN=an authority of tests", "-keyout", "ca.key", "-out", "ca.pem", "-days", "30"];
    await run(["openssl", "req", "-x509", ...NEW_KEY, ...own], { cwd: folder });
    const leaf = ["-subj", "/CN=a leaf", "-keyout", "leaf.key", "-out", "leaf.csr"];
    await run(["openssl", "req", "-new", ...NEW_KEY, ...leaf], { cwd: folder });
    const read = (name: string) => readFileSync(join(folder, name), "utf8");
    return new TestAuthority(folder, read("ca.pem"), read("leaf.key"));
  }

  get file(): string {
    return join(this.folder, "ca.pem");
  }

  /** `days` zero: it has ended already. */
  async sign(name: string, days = 10): Promise<string> {
    const extensions = join(this.folder, `${crypto.randomUUID()}.cnf`);
    writeFileSync(extensions, `subjectAltName = DNS:${name}\nextendedKeyUsage = serverAuth\n`);
    const signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", `${Date.now()}`, "-days", `${days}`];
    const request = ["openssl", "x509", "-req", "-in", "leaf.csr", ...signing, "-extfile", extensions];
    return await run(request, { cwd: this.folder });
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
