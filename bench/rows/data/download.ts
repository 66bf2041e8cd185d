/** Download of a large file from a sandbox. Both sides read the same file. */
import { BESIDE_NGINX, compareWithNginx, makeFile } from "../../clients/file-transfer.ts";
import type { Row } from "../../row.ts";

export const download: Row = {
  name: "download",
  what: "a file of 256 MiB (1 GiB with --long) down through the server",
  beside: BESIDE_NGINX,
  needs: "nginx",
  quick: true,
  async run(context) {
    return await compareWithNginx(context, async (sandbox, nginx, { name, inSandbox, hostView }) => {
      const bytes = context.heavyBytes;
      await makeFile(hostView, bytes);
      const url = `${context.sdk.sandboxUrl}/files?path=${inSandbox}`;
      // Explicitly, because without this header the server may send gzip.
      const headers = { ...sandbox.headers, "Accept-Encoding": "identity" };
      return {
        ours: { method: "GET", url, headers, bytes },
        peer: { method: "GET", url: `${nginx.url}/${name}`, bytes },
      };
    });
  },
};
