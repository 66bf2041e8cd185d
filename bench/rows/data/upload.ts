/** Upload of a large file into a sandbox. Both sides write a new file to the same disk. */
import { rm } from "node:fs/promises";
import { BESIDE_NGINX, compareWithNginx, makeFile } from "../../clients/file-transfer.ts";
import type { Row } from "../../row.ts";

export const upload: Row = {
  name: "upload",
  what: "a file of 256 MiB (1 GiB with --long) up through the server",
  beside: BESIDE_NGINX,
  needs: "nginx",
  quick: true,
  async run(context) {
    return await compareWithNginx(context, async (sandbox, nginx, { name, inSandbox, hostView, source }) => {
      const bytes = context.heavyBytes;
      await makeFile(source, bytes);
      const url = `${context.sdk.sandboxUrl}/files?path=${inSandbox}`;
      const headers = { ...sandbox.headers, "Content-Type": "application/octet-stream" };
      return {
        ours: { method: "POST", url, headers, upload: source, bytes },
        peer: { method: "PUT", url: `${nginx.url}/${name}`, upload: source, bytes },
        clear: () => rm(hostView, { force: true }),
      };
    });
  },
};
