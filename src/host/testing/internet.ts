/**
 * The internet of the tests: answers HTTP on port 80 of every address with "hello from outside", echoes UDP on port
 * 7000, and serves names on port 53 (outside.test is 93.184.215.14, everything else does not exist). Ends with its
 * parent.
 */
import { MUST_BE_CLOSED, NAME_SERVER, OUTSIDE } from "./outer-network.ts";

Bun.serve({ hostname: "::", port: 80, fetch: () => new Response("hello from outside") });

// One socket for each address: an answer must come from where the question went.
const ADDRESSES = [...MUST_BE_CLOSED, OUTSIDE, "2001:db8:1::1"];
for (const hostname of ADDRESSES) {
  await Bun.udpSocket({
    hostname,
    port: 7000,
    socket: { data: (socket, data, port, address) => void socket.send(data, port, address), error: () => undefined },
  });
}

await Bun.udpSocket({
  hostname: NAME_SERVER,
  port: 53,
  socket: {
    data: (socket, data, port, address) => void socket.send(answer(data), port, address),
    error: () => undefined,
  },
});

/** A minimal answer to a question of one name. */
function answer(query: Buffer): Buffer {
  let end = 12;
  const labels: string[] = [];
  while (end < query.length && query[end] !== 0) {
    const length = query[end] ?? 0;
    labels.push(query.subarray(end + 1, end + 1 + length).toString());
    end += length + 1;
  }
  const question = query.subarray(12, end + 5);
  const isAddress = query.readUInt16BE(end + 1) === 1;
  const known = labels.join(".").toLowerCase() === "outside.test";
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(known ? 0x8180 : 0x8183, 2);
  header.writeUInt16BE(1, 4);
  const found = known && isAddress;
  header.writeUInt16BE(found ? 1 : 0, 6);
  const record = Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...OUTSIDE.split(".").map(Number)]);
  return Buffer.concat(found ? [header, question, record] : [header, question]);
}

const startedBy = process.ppid;
setInterval(() => {
  if (process.ppid !== startedBy) process.exit(0);
}, 1000);
console.log("ready");
