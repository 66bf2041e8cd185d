"""
Output of child processes. It must be with the server before the server hears that the cell is over, so the kernel waits
for it at the end of a cell: for what programs have written into the pipes that are their standard output, and for what
forked copies of the kernel have sent.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import select
import struct
import termios
import threading
from typing import Any, Callable

from ipykernel.iostream import CHILD, IOPubThread

READ_BYTES = 65_536

#: A copy that was killed while it sent is waited for this long. ipykernel has it give up after the same time.
COPIES_SECONDS = 3.0


class ProgramOutput:
    """
    What programs that a cell has started write to one of their standard streams. A thread reads it while they run;
    `drain` reads the rest. The lock is held from reading to writing on, so that nothing is in between.
    """

    def __init__(self, pipe: int, write: Callable[[str], Any]) -> None:
        self._pipe = pipe
        self._write = write
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.RLock()

    def watch(self, goes_on: Callable[[], bool]) -> None:
        waiting = select.poll()
        waiting.register(self._pipe, select.POLLIN)
        while True:
            waiting.poll()
            if not goes_on():
                return
            self.drain()

    def drain(self) -> None:
        """All that is there now, and no more: a program may write without end."""
        with self._lock:
            rest = self._waiting()
            while rest > 0:
                piece = os.read(self._pipe, min(rest, READ_BYTES))
                rest -= len(piece)
                text = self._decoder.decode(piece)
                if text:
                    self._write(text)

    def _waiting(self) -> int:
        return struct.unpack("i", fcntl.ioctl(self._pipe, termios.FIONREAD, bytes(4)))[0]


class PubThread(IOPubThread):
    """
    Sends all messages of the kernel. Forked copies send theirs to it by a connection, on which they arrive some time
    later: so they count each one beforehand, where the kernel sees it at once.
    """

    _announced: int
    _expected: int
    _arrived: int
    _arrival: threading.Condition

    @classmethod
    def adopt(cls, thread: IOPubThread) -> None:
        thread.__class__ = cls
        thread._announced = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        thread._expected = thread._arrived = 0
        thread._arrival = threading.Condition()
        thread.schedule(lambda: thread._pipe_in.on_recv(thread._handle_pipe_msg))

    def _really_send(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        if not self.closed and self._check_mp_mode() == CHILD:
            os.eventfd_write(self._announced, 1)
        super()._really_send(msg, *args, **kwargs)

    def _handle_pipe_msg(self, msg: Any) -> None:
        super()._handle_pipe_msg(msg)
        with self._arrival:
            self._arrived += 1
            self._arrival.notify_all()

    def await_copies(self) -> None:
        """Returns when the messages that copies have sent before are here."""
        with self._arrival:
            try:
                self._expected += os.eventfd_read(self._announced)
            except BlockingIOError:
                pass
            # More have arrived than were announced when one came after it had been given up.
            self._expected = max(self._expected, self._arrived)
            if not self._arrival.wait_for(lambda: self._arrived >= self._expected, COPIES_SECONDS):
                self._expected = self._arrived
