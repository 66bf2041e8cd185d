# Keeps changing memory and files, step by step. What all of it must be after n steps follows from n alone, because each step
# is folded into what was there before: whoever lost a single page, or a single write, never agrees again.
import hashlib, json, mmap, os, socket, threading, time

ANON, SHARED, FILE = 16 << 20, 4 << 20, 2 << 20
BLOCKS = {"anonymous": 65536, "shared": 16384, "file": 4096}

anonymous = mmap.mmap(-1, ANON, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
shared_fd = os.open("/home/user/shared", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.ftruncate(shared_fd, SHARED)
shared = mmap.mmap(shared_fd, SHARED)
file_fd = os.open("/home/user/file", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.ftruncate(file_fd, FILE)

steps = 0
lock = threading.Lock()


def folded(old, pattern):
    times = len(old) // len(pattern)
    both = int.from_bytes(old, "little") ^ int.from_bytes(pattern * times, "little")
    return both.to_bytes(len(old), "little")


def place(digest, start, size, block):
    return int.from_bytes(digest[start : start + 4], "little") % (size // block) * block


def step():
    global steps
    digest = hashlib.sha256(str(steps).encode()).digest()
    block = BLOCKS["anonymous"]
    at = place(digest, 0, ANON, block)
    anonymous[at : at + block] = folded(anonymous[at : at + block], digest)
    block = BLOCKS["shared"]
    at = place(digest, 4, SHARED, block)
    shared[at : at + block] = folded(shared[at : at + block], digest)
    block = BLOCKS["file"]
    at = place(digest, 8, FILE, block)
    os.pwrite(file_fd, folded(os.pread(file_fd, block, at), digest), at)
    steps += 1


def work():
    while True:
        with lock:
            step()
        time.sleep(0.001)


def read_whole(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def report():
    with lock:
        return json.dumps(
            {
                "steps": steps,
                "anonymous": hashlib.sha256(anonymous).hexdigest(),
                "shared": hashlib.sha256(shared).hexdigest(),
                "sharedOnDisk": read_whole("/home/user/shared"),
                "file": read_whole("/home/user/file"),
            }
        ).encode()


threading.Thread(target=work, daemon=True).start()
server = socket.create_server(("0.0.0.0", 4998))
while True:
    client, _ = server.accept()
    try:
        client.recv(65536)
        body = report()
        client.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
    except OSError:
        pass
    client.close()
