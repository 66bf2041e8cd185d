"""
What cells print. The kernel gathers it and sends it on by a timer. Clients get one line for each `print`: so here the
texts of single prints are kept apart, and one that has just begun when the timer strikes waits for its newline.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ipykernel.iostream import IOPubThread, OutStream

from .children import ProgramOutput, PubThread

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

#: The timer sends an unfinished print that it finds this often. They are counted, and no time is measured: on a busy
#: machine the kernel as a whole may stop between a text and its newline, and after that its threads continue together.
LOOKS = 5


class Prints:
    """In the place of the plain text that the kernel gathers for one cell."""

    def __init__(self) -> None:
        self._whole: list[str] = []
        self._unfinished: list[str] = []
        self._may_go_on = False
        self._looks = 0

    def write(self, text: str) -> None:
        """`print` writes its newline by itself, also after a text that ends in one."""
        if self._may_go_on and text == "\n":
            self._whole[-1] += text
            self._may_go_on = False
            return
        self._unfinished.append(text)
        self._may_go_on = False
        if text.endswith("\n"):
            self._finish()
            self._may_go_on = len(text) > 1

    def take(self, looks: int) -> list[str]:
        """The unfinished one, too, if this is at least the look of that number that finds it so."""
        if self._unfinished:
            self._looks += 1
            if self._looks >= looks:
                self._finish()
        taken, self._whole = self._whole, []
        self._may_go_on = False
        return taken

    def _finish(self) -> None:
        text = "".join(self._unfinished)
        self._unfinished = []
        self._looks = 0
        if text:
            self._whole.append(text)

    def __bool__(self) -> bool:
        return bool(self._whole or self._unfinished)


class PrintStream(OutStream):
    """`sys.stdout` and `sys.stderr` of cells."""

    _programs: ProgramOutput

    def write(self, string: str) -> int | None:
        is_part = isinstance(string, str) and not string.endswith("\n")
        if self._is_master_process():
            # What a program has written before comes before, but not between a print and its newline.
            if string != "\n":
                self._programs.drain()
            return super().write(string)
        if not is_part or self.pub_thread is None:
            return super().write(string)
        # A copy of this process has no timer, and sends with every write: here, when a print is whole or at a flush.
        with self._buffer_lock:
            self._buffers[frozenset(self.parent_header.items())].write(string)
        return len(string)

    def flush(self) -> None:
        """Called at the end of a cell, too, before the kernel says that the cell is over."""
        if self._is_master_process() and self.pub_thread is not None:
            self._programs.drain()
            if threading.current_thread() is not self.pub_thread.thread:
                self.pub_thread.await_copies()
        super().flush()

    def begin_anew(self) -> None:
        """In a copy of this process: the original sends what is here, and its threads may hold the lock for ever."""
        self._buffer_lock = threading.RLock()
        self._buffers = defaultdict(Prints)

    def _schedule_flush(self, looks: int = 1) -> None:
        if self._flush_pending:
            return
        self._flush_pending = True
        after = self.flush_interval / looks
        self.pub_thread.schedule(lambda: self._io_loop.call_later(after, self._flush_by_timer))

    def _flush_by_timer(self) -> None:
        self._flush_pending = False
        self._send(LOOKS)
        if self._buffers:
            self._schedule_flush(LOOKS - 1)

    def _flush(self) -> None:
        """Called by the stream itself when all that is there is to be sent, at the end of a cell for one."""
        self._flush_pending = False
        self._subprocess_flush_pending = False
        self._send(0)

    def _flush_buffers(self) -> Iterator[tuple[dict[str, Any], str]]:
        """For a timer that was set before the stream became one of these: it calls the flush of then."""
        for parent, parts in self._take(0):
            yield dict(parent), "".join(parts)

    def _send(self, looks: int) -> None:
        """In the thread that sends, but for copies of this process, which have none."""
        for parent, parts in self._take(looks):
            self.session.pid = os.getpid()
            content: dict[str, Any] = {"name": self.name, "text": "".join(parts)}
            if len(parts) > 1:
                content["parts"] = parts
            message = self.session.msg("stream", content, parent=dict(parent))
            for hook in self._hooks:
                message = hook(message)
                if message is None:
                    return
            self.session.send(self.pub_thread, message, ident=self.topic)

    def _take(self, looks: int) -> list[tuple[Any, list[str]]]:
        """What is to be sent, by the cell it belongs to: all of it, or what the timer may send."""
        taken = []
        with self._buffer_lock:
            for parent, prints in list(self._buffers.items()):
                parts = prints.take(looks)
                if parts:
                    taken.append((parent, parts))
                if not prints:
                    del self._buffers[parent]
        return taken


def keep_prints_apart(shell: InteractiveShell) -> None:
    """In messages, `parts` has the texts of single prints, beside the whole in `text`."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if type(stream) is OutStream]
    for stream in streams:
        stream.flush()
        _read_programs_of(stream)
        if type(stream.pub_thread) is IOPubThread:
            PubThread.adopt(stream.pub_thread)
        with stream._buffer_lock:
            stream._buffers = defaultdict(Prints)
            stream.__class__ = PrintStream
        os.register_at_fork(after_in_child=stream.begin_anew)

    def flush_replaced() -> None:
        """The kernel flushes what cells print to now, which need not be its own streams."""
        for stream in streams:
            if stream not in (sys.stdout, sys.stderr):
                stream.flush()

    shell.events.register("post_execute", flush_replaced)


def _read_programs_of(stream: OutStream) -> None:
    """In the place of ipykernel's thread, which tells nobody how far it has read."""
    stream._should_watch = False
    os.write(stream._original_stdstream_fd, b"\0")
    stream.watch_fd_thread.join()
    stream._should_watch = True
    programs = stream._programs = ProgramOutput(stream._fid, partial(_write_of_programs, stream))
    goes_on = partial(getattr, stream, "_should_watch")
    stream.watch_fd_thread = threading.Thread(target=programs.watch, args=(goes_on,), daemon=True)
    stream.watch_fd_thread.start()


def _write_of_programs(stream: OutStream, text: str) -> None:
    """It belongs to the cell that runs now, whichever cell a thread was started by."""
    stream._parent_header.set(stream._parent_header_global)
    OutStream.write(stream, text)
