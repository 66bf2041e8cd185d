/**
 * One end of the firewall trial, in its own network namespace. It listens on the port in its argument, reads probes as
 * a line of JSON on standard input, reports which of them passed, and exits at the end of its input.
 */
import { createSocket } from "node:dgram";
import { connect, createServer } from "node:net";
import type { Probe, Probing } from "./firewall-trial.ts";

const UDP_TRIES = 4;

const port = Number(process.argv[2]);
createServer((socket) => void socket.end("x")).listen(port, "0.0.0.0", () => console.log("started"));
let text = "";
process.stdin.on("end", () => process.exit(0));
process.stdin.on("data", (chunk) => {
  text += chunk;
  if (text.includes("\n")) void probe(JSON.parse(text) as Probing);
});

async function probe({ probes, withinMs }: Probing): Promise<void> {
  console.log(JSON.stringify(await Promise.all(probes.map((each) => passes(each, withinMs)))));
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
