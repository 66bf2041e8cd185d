"""
Runs inside a sandbox: makes every exchange of the JSON list given, all at once, and prints what came of each, as JSON.

An exchange is a connection to "address" and "port"; with "name", also an empty one, it begins TLS and names that
server, or none. On it one request is made for each of "hosts", one after the other, for "path". What is sent first can
be cut into pieces of "piece" bytes, with "pause" seconds between them. "raw" is sent instead of a request. For each
answer comes "HOST@ADDRESS", as the web site itself tells it, or the answer's status; then "closed", "timeout" or the
error, if there was one.
"""

import json
import socket
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor

SECONDS = 20


class Plain:
    def __init__(self, connection, exchange):
        self.connection = connection
        self.piece = exchange.get("piece", 0)
        self.pause = exchange.get("pause", 0)

    def send(self, data):
        size = self.piece or len(data)
        for at in range(0, len(data), size):
            self.connection.sendall(data[at : at + size])
            time.sleep(self.pause)
        self.piece = 0
        self.pause = 0

    def recv(self):
        return self.connection.recv(65536)


class Secure:
    """TLS over what may send it in pieces."""

    def __init__(self, plain, name):
        context = ssl._create_unverified_context()
        self.plain = plain
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name or None)
        self.run(self.tls.do_handshake)

    def run(self, step):
        while True:
            try:
                result = step()
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                data = self.plain.recv()
                if not data:
                    raise EOFError
                self.incoming.write(data)

    def flush(self):
        data = self.outgoing.read()
        if data:
            self.plain.send(data)

    def send(self, data):
        self.run(lambda: self.tls.write(data))

    def recv(self):
        return self.run(lambda: self.tls.read(65536))


def read_answer(stream):
    data = b""
    while b"\r\n\r\n" not in data:
        data = more(stream, data)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin1").lower().split("\r\n")
    status = lines[0].split(" ")[1]
    length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
    while len(body) < length:
        body = more(stream, body)
    try:
        told = json.loads(body)
        return f"{told['host']}@{told['address']}"
    except ValueError:
        return status


def more(stream, data):
    piece = stream.recv()
    if not piece:
        raise EOFError
    return data + piece


def answers(exchange):
    found = []
    try:
        with socket.create_connection((exchange["address"], exchange["port"]), SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = Plain(connection, exchange)
            if exchange.get("name") is not None:
                stream = Secure(stream, exchange["name"])
            for host in exchange["hosts"]:
                path = exchange.get("path", "/reached")
                request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"
                stream.send(exchange.get("raw", request).encode())
                found.append(read_answer(stream))
    except EOFError:
        found.append("closed")
    except ConnectionResetError:
        found.append("closed")
    except BrokenPipeError:
        found.append("closed")
    except ssl.SSLError:
        found.append("closed")
    except socket.timeout:
        found.append("timeout")
    except OSError as error:
        found.append(str(error))
    return found


exchanges = json.loads(sys.argv[1])
with ThreadPoolExecutor(64) as pool:
    print(json.dumps(list(pool.map(answers, exchanges))))
