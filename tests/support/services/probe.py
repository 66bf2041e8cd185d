"""
Runs inside a sandbox: tries every "kind address port" given, all at once, and prints those that answered. One that
should answer is given more time, in PROBE_SECONDS.
"""

import os
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

SECONDS = float(os.environ.get("PROBE_SECONDS", "1.5"))


def tcp(address, port):
    with socket.create_connection((address, int(port)), SECONDS) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: probe\r\n\r\n")
        return len(connection.recv(1)) > 0


def udp(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.settimeout(SECONDS)
        # Connected, so that a refusal is heard at once.
        sender.connect((address, int(port)))
        sender.send(b"probe")
        return sender.recv(16) == b"probe"


def icmp(address, _port):
    return subprocess.run(["ping", "-c", "1", "-W", "1", address], capture_output=True).returncode == 0


QUESTION = bytes.fromhex("12340100000100000000000007") + b"outside" + b"\x04test" + bytes.fromhex("0000010001")


def dns(address, port):
    """Asks for outside.test."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(SECONDS)
        sender.connect((address, int(port)))
        sender.send(QUESTION)
        return len(sender.recv(512)) > len(QUESTION)


def dnstcp(address, port):
    with socket.create_connection((address, int(port)), SECONDS) as connection:
        return answers_stream(connection)


def dot(address, port):
    """The same over TLS."""
    with socket.create_connection((address, int(port)), SECONDS) as connection:
        with ssl._create_unverified_context().wrap_socket(connection) as secure:
            return answers_stream(secure)


def doh(address, port):
    """And over HTTPS."""
    head = f"POST /dns-query HTTP/1.0\r\nHost: {address}\r\nContent-Length: {len(QUESTION)}\r\n\r\n".encode()
    with socket.create_connection((address, int(port)), SECONDS) as connection:
        with ssl._create_unverified_context().wrap_socket(connection) as secure:
            secure.sendall(head + QUESTION)
            return secure.recv(12).endswith(b" 200")


def answers_stream(connection):
    connection.sendall(len(QUESTION).to_bytes(2, "big") + QUESTION)
    return len(connection.recv(512)) > 2 + len(QUESTION)


def name(host, _port):
    return len(socket.getaddrinfo(host, 80)) > 0


def answers(probe):
    kind, address, port = probe.split()
    try:
        return globals()[kind](address, port)
    except OSError:
        return False


with ThreadPoolExecutor(64) as pool:
    probes = sys.argv[1:]
    for probe, answered in zip(probes, pool.map(answers, probes)):
        if answered:
            print(probe)
