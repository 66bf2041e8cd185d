/** Relays a TLS connection to the server named in its hello, if the policy allows it. The bytes pass unchanged. */
import { ALERT_DENIED, ClientHelloReader } from "./client-hello.ts";
import type { Flow } from "./flow.ts";

export function relayTls(flow: Flow, port: number): void {
  const reader = new ClientHelloReader();
  const { client } = flow;
  flow.expect(flow.sandbox.shared.bounds.helloMs);
  client.events = {
    data: (piece) => {
      flow.collect(piece.length);
      const hello = reader.add(piece);
      if (hello === undefined) return;
      client.pause();
      flow.expect(undefined);
      if ("refused" in hello) flow.cut();
      else connect(flow, hello.value, reader.bytes, port).catch(() => flow.cut());
    },
    // The client closed before its hello was complete.
    end: () => flow.cut(),
    room: () => undefined,
  };
  client.resume();
}

async function connect(flow: Flow, name: string, hello: Buffer, port: number): Promise<void> {
  const upstream = await flow.reach({ name }, port);
  if (typeof upstream === "string") {
    flow.client.write(ALERT_DENIED);
    return flow.finish(flow.sandbox.shared.bounds.lingerMs);
  }
  upstream.write(hello);
  flow.collect(undefined);
  flow.join(upstream);
}
