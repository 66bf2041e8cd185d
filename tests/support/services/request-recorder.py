"""Serves HTTP/1.1 as many small servers do, and tells the path of each request that it has understood at /seen."""
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

seen = []


class Recorder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 2

    def answer(self):
        body = b"ok"
        if self.path == "/seen":
            body = "\n".join(seen).encode()
            seen.clear()
        else:
            seen.append(f"{self.command} {self.path}")
            self.read_body()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_PRI = answer

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                self.rfile.read(size + 2)
                if size == 0:
                    return
        self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Recorder)
print("listening", flush=True)
server.serve_forever()
