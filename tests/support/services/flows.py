"""
Runs inside a sandbox: opens flows of every kind and tells what still passes on them once /tmp/phase exists.

Arguments: a JSON list of flows, a mark, and a JSON list that says of each whether it should pass. Each flow has a
"kind": "tcp" or "udp" to the echo of "address", "dns" to a name server by TCP, or "drip" and "udp-drip", which send by
themselves without end; with "name" a drip comes over TLS from that server, with "host" by HTTP. Prints "open" when
something has come on all of them. After /tmp/phase was written it reads what had come before, sends the mark on all but
drips, and prints as JSON on which of them anything came: one that should pass is waited for as long as it takes, the
others for a moment.
"""

import json
import os
import select
import socket
import ssl
import sys
import time

SECONDS = 20
WATCHED_SECONDS = 0.6
ECHO, DNS, WEB, SECURE_WEB = 7000, 53, 80, 443


def question(name):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    message = bytes.fromhex("123401000001000000000000") + labels + bytes.fromhex("0000010001")
    return len(message).to_bytes(2, "big") + message


def connect(address, port):
    return socket.create_connection((address, port), SECONDS)


def opened(flow):
    """A socket on which something has come."""
    kind, address = flow["kind"], flow["address"]
    if kind in ("udp", "udp-drip"):
        stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        stream.settimeout(1)
        stream.connect((address, ECHO))
        for _ in range(SECONDS):
            stream.send(b"drip" if kind == "udp-drip" else b"first")
            try:
                if stream.recv(100):
                    return stream
            except socket.timeout:
                pass
        raise TimeoutError(kind)
    if kind == "tcp":
        stream = connect(address, ECHO)
        stream.sendall(b"first")
    elif kind == "dns":
        stream = connect(address, DNS)
        stream.sendall(question(flow["query"]))
    elif "name" in flow:
        stream = ssl._create_unverified_context().wrap_socket(connect(address, SECURE_WEB), server_hostname=flow["name"])
        stream.sendall(f"GET /drip HTTP/1.1\r\nHost: {flow['name']}\r\n\r\n".encode())
    else:
        stream = connect(address, WEB)
        stream.sendall(f"GET /drip HTTP/1.1\r\nHost: {flow['host']}\r\n\r\n".encode())
    while not (data := stream.recv(65536)) or (kind == "drip" and b"drop" not in data):
        if not data:
            raise EOFError(kind)
    return stream


def readable(stream, seconds):
    if isinstance(stream, ssl.SSLSocket) and stream.pending() > 0:
        return True
    return len(select.select([stream], [], [], seconds)[0]) > 0


def received(stream):
    """Whether there was something; false when the flow is over."""
    try:
        return len(stream.recv(65536)) > 0
    except OSError:
        return False


def drained(stream):
    """Reads what came before; a drip that is not cut comes again too soon to be read to its end, so for a moment only."""
    deadline = time.monotonic() + 0.02
    while time.monotonic() < deadline and readable(stream, 0):
        if not received(stream):
            return


def passes(flow, stream, mark, seconds):
    try:
        if flow["kind"] == "dns":
            stream.sendall(question(f"{mark}.{flow['query']}"))
        elif flow["kind"] in ("tcp", "udp"):
            stream.sendall(mark.encode())
    except OSError:
        pass
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if readable(stream, left):
            if flow["kind"] == "dns":
                return answered(stream)
            if received(stream):
                return True
            # Word that a datagram was refused ends nothing; the next one may come all the same.
            if not flow["kind"].startswith("udp"):
                return False
    return False


def answered(stream):
    """A refusal is no answer."""
    try:
        data = stream.recv(512)
    except OSError:
        return False
    return len(data) > 14 and data[5] & 15 == 0


flows = json.loads(sys.argv[1])
mark = sys.argv[2]
times = [SECONDS if should_pass else WATCHED_SECONDS for should_pass in json.loads(sys.argv[3])]
streams = [opened(flow) for flow in flows]
for stream in streams:
    stream.settimeout(SECONDS)
print("open", flush=True)
while not os.path.exists("/tmp/phase"):
    # What comes by itself must not fill the buffers: a flow that nobody reads stands still for that reason alone.
    for stream in streams:
        if readable(stream, 0):
            received(stream)
    time.sleep(0.005)
for stream in streams:
    drained(stream)
print(json.dumps([passes(*each) for each in zip(flows, streams, [mark] * len(flows), times)]), flush=True)
