/** A Python program that a sandbox's root user puts in place of the guest. */

/**
 * Keeps the guest from coming back, takes its port, and goes on with `program`, which has `listener` and `sys.argv`.
 */
export function inPlaceOfGuest(imports: string, program: string): string {
  return `
import os, signal, socket, subprocess, sys, ${imports}
for pid in subprocess.run(["pgrep", "-f", "keep-guest"], capture_output=True, text=True).stdout.split():
    if int(pid) != 1: os.kill(int(pid), signal.SIGSTOP)
subprocess.run(["pkill", "-KILL", "-f", "^/.sandlot/bin/guest"])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        listener.bind(("0.0.0.0", 49983)); break
    except OSError: pass
listener.listen(64)
${program}`;
}
