/**
 * A fake CRIU service: its worker for each connection changes to the given folder, sends its pid, and stays until told
 * to end. In Python, because Bun cannot fork.
 */
export const PLAYED_SERVICE = `
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
address = sys.argv[sys.argv.index("--address") + 1]
if os.path.exists(address): os.unlink(address)
lobby = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
print("a warning, as CRIU has some", flush=True)
lobby.bind(address)
lobby.listen()
os.write(int(sys.argv[sys.argv.index("--status-fd") + 1]), b"\\0")
while True:
    talk, _ = lobby.accept()
    if os.fork() == 0:
        os.chdir(talk.recv(4096))
        talk.send(str(os.getpid()).encode())
        talk.recv(1)
        os._exit(0)
    talk.close()
`;
