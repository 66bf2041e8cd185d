/** What TLS and the edge cost together: small pages of a service in a sandbox, against nginx as the same proxy. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../src/contract/management/base-template.ts";
import { LocalAuthority } from "../../src/host/tls/local-authority.ts";
import { BenchSandbox } from "../bench-sandbox.ts";
import { LOCAL_DOMAIN } from "../bench-server.ts";
import { askMany } from "../peers/curl.ts";
import { findNginx, NGINX_MISSING, Nginx } from "../peers/nginx.ts";
import { TlsProxy } from "../peers/nginx-tls.ts";
import type { Row } from "../row.ts";
import { interleave, summary, timed } from "../samples.ts";

const COUNT = 1_000;
const CONNECTIONS = 16;
const PAGE = "bench-page";

export const tls: Row = {
  name: "tls",
  what: `${COUNT} small pages of a sandbox's web server over ${CONNECTIONS} connections with TLS`,
  beside: { peer: "nginx with TLS as the same proxy, one process, to the same pages", ratio: "speed" },
  async run(context) {
    const program = findNginx();
    if (program === undefined) return { notMeasured: NGINX_MISSING };
    const authority = LocalAuthority.find(context.data.path);
    if (authority === undefined) return { notMeasured: "openssl is missing. To measure it: apt-get install openssl" };
    await using sandbox = await BenchSandbox.make(context);
    await using service = await Nginx.start(program, sandbox, BASE_TEMPLATE.defaultWorkdir);
    writeFileSync(join(sandbox.root, BASE_TEMPLATE.defaultWorkdir, PAGE), "a small page\n");
    await using proxy = await TlsProxy.start(program, context.data.runFolder, authority.files, service.url);
    const asked = { authority: authority.trustFile, path: `/${PAGE}`, count: COUNT, connections: CONNECTIONS };
    const ourHost = `${new URL(service.url).port}-${sandbox.id}.${LOCAL_DOMAIN}`;
    const ours = () => askMany({ ...asked, host: ourHost, port: 443 });
    const peer = () => askMany({ ...asked, host: `proxy.${LOCAL_DOMAIN}`, port: proxy.port });
    const pairs = await interleave(
      context.heavyRounds,
      () => timed(ours),
      () => timed(peer),
    );
    const perSecond = (samples: number[]) => Math.round(COUNT / (summary(samples).median / 1000));
    return { pairs, notes: [`${perSecond(pairs.ours)} requests/s, peer ${perSecond(pairs.peer)}`] };
  },
};
