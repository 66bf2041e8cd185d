/** Main program of the relay process, without privileges. It exits at the end of standard input. */
import { boundedLines } from "../../base/bounded-lines.ts";
import { described } from "../../base/log.ts";
import {
  RELAY_MESSAGE_MAX_BYTES,
  type RelayAnswer,
  type RelayReply,
  type RelayRequest,
  type RelayStart,
} from "../relay-messages.ts";
import { BOUNDS } from "./bounds.ts";
import { ConnectionRelay } from "./connection-relay.ts";
import { RuleServer } from "./rule-server.ts";

const DNS_PORT = 53;
const COUNTS_EVERY_MS = 1_000;

const output = Bun.stdout.writer();
const lines = boundedLines(Bun.stdin.stream(), RELAY_MESSAGE_MAX_BYTES);
const { address, ports, connectionsMax, rules } = JSON.parse((await lines.next()).value ?? "null") as RelayStart;
const ruleServer = rules === null ? undefined : new RuleServer(rules, reply);
const relay = new ConnectionRelay({
  address,
  ports,
  nameServer: { address, port: DNS_PORT },
  bounds: { ...BOUNDS, connections: connectionsMax },
  report: (source, trouble) => reply({ trouble, source }),
  rules: ruleServer,
});
let silentUntil = 0;
// An exception in a listener belongs to one connection: it must not end those of all sandboxes.
process.on("uncaughtException", survive);
process.on("unhandledRejection", survive);
reply({ ready: relay.ports });
setInterval(() => {
  const decisions = relay.decisions.take();
  if (decisions !== undefined) reply({ decisions });
}, COUNTS_EVERY_MS);
try {
  for await (const line of lines) {
    const request = JSON.parse(line) as RelayRequest | RelayAnswer;
    if (request.do === "answer") {
      ruleServer?.answer(request.question, request.answer);
      continue;
    }
    if (request.do === "set") relay.set(request.source, request.policy);
    else relay.setClosed(request.ranges);
    reply({ done: request.id });
  }
} catch (thrown) {
  // Without all rules of the server, it must not go on.
  process.stderr.write(`${described(thrown)}\n`);
  process.exit(1);
}
process.exit(0);

/** The server logs it, seldom enough that no sandbox floods its log. */
function survive(thrown: unknown): void {
  const now = performance.now();
  if (now < silentUntil) return;
  silentUntil = now + BOUNDS.reportEveryMs;
  process.stderr.write(`${described(thrown)}\n`);
}

function reply(message: RelayReply): void {
  output.write(`${JSON.stringify(message)}\n`);
  output.flush();
}
