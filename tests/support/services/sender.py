"""
Runs inside a sandbox and never stops: sends a mark to ADDRESS in every way there is, again and again. Arguments:
ADDRESS NAME. The mark is in /tmp/mark, with -udp, -quic, -tcp behind it as it came; as the path of a request to NAME at
ADDRESS it has a slash before it, and MARK.NAME is asked for as a name. How many rounds began with this mark is in
/tmp/rounds, as "MARK ROUNDS".
"""

import os
import socket
import sys
import threading
import time

ADDRESS, NAME = sys.argv[1:3]
SECONDS = 2
PAUSE = 0.005
ECHO, WEB, QUIC, DNS = 7000, 80, 443, 53


def mark():
    with open("/tmp/mark") as file:
        return file.read().strip()


def datagram(port, ending, kept={}):
    def send(text):
        sender = kept.setdefault(port, socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sender.sendto((text + ending).encode(), (ADDRESS, port))

    return send


def connection(text):
    with socket.create_connection((ADDRESS, ECHO), SECONDS) as stream:
        stream.sendall((text + "-tcp").encode())


def request(text):
    with socket.create_connection((ADDRESS, WEB), SECONDS) as stream:
        stream.sendall(f"GET /{text} HTTP/1.0\r\nHost: {NAME}\r\n\r\n".encode())
        stream.recv(100)


def question(text):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in [text, *NAME.split(".")])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(bytes.fromhex("123401000001000000000000") + labels + bytes.fromhex("0000010001"), (ADDRESS, DNS))


def forever(send, is_counted):
    rounds = {}
    while True:
        text = mark()
        try:
            if text:
                send(text)
        except OSError:
            pass
        if is_counted:
            rounds[text] = rounds.get(text, 0) + 1
            with open("/tmp/rounds.new", "w") as file:
                file.write(f"{text} {rounds[text]}")
            os.replace("/tmp/rounds.new", "/tmp/rounds")
        time.sleep(PAUSE)


ways = [datagram(ECHO, "-udp"), datagram(QUIC, "-quic"), connection, request, question]
for way in ways[1:]:
    threading.Thread(target=forever, args=(way, False), daemon=True).start()
print("sending", flush=True)
forever(ways[0], True)
