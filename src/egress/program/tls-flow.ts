/**
 * Relays a TLS connection to the server named in its hello, if the policy allows it. The bytes pass unchanged, unless
 * the name has a header rule.
 */
import { ALERT_DENIED, ClientHelloReader, type HelloFacts } from "./client-hello.ts";
import type { Flow } from "./flow.ts";
import { intercept } from "./rule-flow.ts";

/** An address that the sandbox chose and that its rules allow. */
export interface ChosenAddress {
  address: string;
  port: number;
}

/** `chosen`: where everything goes that has no header rule. Undefined: to the named server. */
export function relayTls(flow: Flow, port: number, chosen?: ChosenAddress): void {
  const reader = new ClientHelloReader();
  const { client, sandbox } = flow;
  const { helloMs } = sandbox.shared.bounds;
  const giveUp = () => (chosen === undefined ? flow.cut() : carry(flow, chosen, reader.bytes));
  flow.expect(helloMs, giveUp);
  client.events = {
    data: (piece) => {
      flow.collect(piece.length);
      const hello = reader.add(piece);
      if (hello === undefined) return;
      client.pause();
      flow.expect(undefined);
      if ("refused" in hello) giveUp();
      else direct(flow, hello.value, reader.bytes, port, chosen);
    },
    // The client closed before its hello was complete.
    end: () => flow.cut(),
    room: () => undefined,
  };
  client.resume();
}

function direct(flow: Flow, hello: HelloFacts, bytes: Buffer, port: number, chosen: ChosenAddress | undefined): void {
  const { name } = hello;
  const { matcher } = flow.sandbox;
  const rule = matcher.ruleOf(name);
  flow.named = { name, rule };
  if (rule !== undefined) intercept(flow, hello, rule, bytes, port).catch(() => flow.cut());
  else if (chosen !== undefined) carry(flow, chosen, bytes);
  else connect(flow, name, bytes, port).catch(() => flow.cut());
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

/** Connects the flow to the address that the sandbox chose, with the bytes that were read so far. */
export function carry(flow: Flow, { address, port }: ChosenAddress, bytes: Buffer): void {
  flow.client.pause();
  flow.expect(undefined);
  const carried = async () => {
    const upstream = await flow.reach({ address }, port);
    if (typeof upstream === "string") return flow.cut();
    if (bytes.length > 0) upstream.write(bytes);
    flow.collect(undefined);
    flow.join(upstream);
  };
  carried().catch(() => flow.cut());
}
