/**
 * Runs inside a sandbox: a WebSocket server on port argv[2] of host argv[3] that sends every message back as it came, and closes
 * when a text says "close CODE". Node's standard library only.
 */
const { createHash } = require("node:crypto");
const { createServer } = require("node:http");

const [, , port, host] = process.argv;
const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;

const server = createServer((_request, response) => response.end("plain"));
server.on("upgrade", (request, socket) => {
  const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
  const accept = createHash("sha1").update(key).digest("base64");
  const chosen = request.headers["sec-websocket-protocol"]?.split(",")[0];
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n` +
      `${chosen === undefined ? "" : `Sec-WebSocket-Protocol: ${chosen}\r\n`}\r\n`,
  );
  send(socket, TEXT, Buffer.from(`connected to ${request.url}`));
  let pending = Buffer.alloc(0);
  socket.on("error", () => socket.destroy());
  socket.on("data", (piece) => {
    pending = Buffer.concat([pending, piece]);
    for (let frame = parse(pending); frame !== undefined; frame = parse(pending)) {
      pending = pending.subarray(frame.end);
      answer(socket, frame);
    }
  });
});
server.listen(Number(port), host, () => console.log("listening"));

function answer(socket, { opcode, payload }) {
  const asksToClose = opcode === TEXT && /^close (\d+)$/.exec(payload.toString());
  if (asksToClose) {
    const code = Buffer.alloc(2);
    code.writeUInt16BE(Number(asksToClose[1]));
    send(socket, CLOSE, code);
  } else if (opcode === TEXT || opcode === BINARY) send(socket, opcode, payload);
  else if (opcode === CLOSE) socket.end();
}

/** One whole frame from a client; clients of this test send no fragments above 64 KiB. */
function parse(bytes) {
  if (bytes.length < 6) return undefined;
  const short = bytes[1] & 127;
  const head = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < head + 4) return undefined;
  const size = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  const end = head + 4 + size;
  if (bytes.length < end) return undefined;
  const mask = bytes.subarray(head, head + 4);
  const payload = Buffer.from(bytes.subarray(head + 4, end)).map((byte, at) => byte ^ mask[at & 3]);
  return { opcode: bytes[0] & 15, payload, end };
}

function send(socket, opcode, payload) {
  const head = Buffer.alloc(payload.length < 126 ? 2 : payload.length < 65_536 ? 4 : 10);
  head[0] = 128 | opcode;
  if (head.length === 2) head[1] = payload.length;
  else if (head.length === 4) {
    head[1] = 126;
    head.writeUInt16BE(payload.length, 2);
  } else {
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(payload.length), 2);
  }
  socket.write(Buffer.concat([head, payload]));
}
