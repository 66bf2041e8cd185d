/**
 * One end of the firewall trial, in its own network namespace. It reads commands as lines of JSON on standard input and
 * exits at its end. `{ listen }`: accepts connections there. `{ probes }`: reports which of them passed.
 */
import { createSocket } from "node:dgram";
import { connect, createServer } from "node:net";
import type { Probe, TrialOrder } from "./firewall-trial.ts";

const UDP_TRIES = 4;

console.log("started");
let text = "";
process.stdin.on("end", () => process.exit(0));
process.stdin.on("data", (chunk) => {
  text += chunk;
  if (text.includes("\n")) void follow(JSON.parse(text) as TrialOrder);
});

async function follow(order: TrialOrder): Promise<void> {
  if ("listen" in order) {
    const { address, port } = order.listen;
    createServer((socket) => void socket.end("x")).listen(port, address, () => console.log("listening"));
    return;
  }
  const passed = await Promise.all(order.probes.map((probe) => passes(probe, order.withinMs)));
  console.log(JSON.stringify(passed));
}

/** True when the other end has replied. */
function passes(probe: Probe, withinMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), withinMs);
  if (probe.protocol === "tcp") {
    const socket = connect(probe.port, probe.address);
    socket.on("data", () => resolve(true));
    socket.on("error", () => resolve(false));
  } else {
    const socket = createSocket("udp4");
    socket.on("message", () => resolve(true));
    // A firewall's rejection arrives as an error; later tries may still pass.
    socket.on("error", () => undefined);
    for (let tries = 0; tries < UDP_TRIES; tries++) {
      setTimeout(() => socket.send("x", probe.port, probe.address, () => undefined), (tries * withinMs) / UDP_TRIES);
    }
  }
  return promise.finally(() => clearTimeout(timer));
}
