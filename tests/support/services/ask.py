"""
Runs inside a sandbox: asks the name server given for each of the names that follow, by UDP and by TCP, and prints the
code and the number of answers of both.
"""

import socket
import sys

SECONDS = 10


def query(name):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return bytes.fromhex("123401000001000000000000") + labels + bytes.fromhex("0000010001")


def told(answer):
    return f"{answer[3] & 15} {answer[7]}" if len(answer) >= 12 else "none"


def udp(server, name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(SECONDS)
        sender.sendto(query(name), (server, 53))
        return told(sender.recv(512))


def tcp(server, name):
    message = query(name)
    with socket.create_connection((server, 53), SECONDS) as connection:
        connection.sendall(len(message).to_bytes(2, "big") + message)
        return told(connection.recv(514)[2:])


for name in sys.argv[2:]:
    results = []
    for way in [udp, tcp]:
        try:
            results.append(f"{way.__name__} {way(sys.argv[1], name)}")
        except OSError as error:
            results.append(f"{way.__name__} {error}")
    print(name, *results)
