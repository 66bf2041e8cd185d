// A service that helps to flood the edge. `node flood-service.cjs PORT` prints a line once it listens.
//   /tiny   answers without end, in chunks of one byte      /long  answers with 32 MiB
//   others  takes what it is sent, or after an upgrade gives it back
const net = require("node:net");

const TINY = Buffer.from("1\r\na\r\n".repeat(20_000));
const LONG = Buffer.alloc(32 * 1024 * 1024, 7);

net
  .createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", (head) => {
      const text = head.toString("latin1");
      if (text.startsWith("GET /tiny ")) {
        socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        // 12 MB each second: with more, it would be the sandbox's use of processors that is measured.
        const pouring = setInterval(() => socket.writableLength === 0 && socket.write(TINY), 10);
        socket.on("close", () => clearInterval(pouring));
      } else if (text.startsWith("GET /long ")) {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${LONG.length}\r\n\r\n`);
        socket.write(LONG);
      } else if (/^upgrade:/im.test(text)) {
        socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        socket.pipe(socket);
      } else socket.resume();
    });
  })
  .listen(Number(process.argv[2]), "0.0.0.0", () => console.log("listening"));
