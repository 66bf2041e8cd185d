"""
What cells print. The kernel sends it on by a timer, which may strike between the text of a `print` and its newline:
clients would get one line as two. Here what the timer finds unfinished waits for its next strike.
"""

from __future__ import annotations

import io
import sys
from collections import defaultdict
from typing import Any


class Buffer(io.StringIO):
    """Knows how much of it was there when a write ended in a newline, and if the rest has waited before."""

    whole = 0
    has_waited = False

    def write(self, text: str) -> int:
        count = super().write(text)
        if text.endswith("\n"):
            self.whole = self.tell()
        return count

    def cut_unfinished(self) -> str:
        rest = self.getvalue()[self.whole :]
        self.seek(self.whole)
        self.truncate()
        return rest


def keep_prints_whole() -> None:
    from ipykernel.iostream import OutStream

    OutStream._is_timed = False
    OutStream._schedule_flush = _schedule_flush
    OutStream._rotate_buffers = _rotate_buffers
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, OutStream):
            stream.flush()
            with stream._buffer_lock:
                stream._buffers = defaultdict(Buffer)


def _schedule_flush(self: Any) -> None:
    if self._flush_pending:
        return
    self._flush_pending = True
    self.pub_thread.schedule(lambda: self._io_loop.call_later(self.flush_interval, _timed_flush, self))


def _timed_flush(self: Any) -> None:
    """In the thread that sends, as all flushes are."""
    self._is_timed = True
    try:
        self._flush()
    finally:
        self._is_timed = False
    if self._buffers:
        self._schedule_flush()


def _rotate_buffers(self: Any) -> dict[Any, Buffer]:
    """Gives what is to be sent."""
    with self._buffer_lock:
        full, self._buffers = self._buffers, defaultdict(Buffer)
        if self._is_timed:
            for parent, buffer in full.items():
                _keep_unfinished(buffer, self._buffers, parent)
        return full


def _keep_unfinished(buffer: Buffer, kept: dict[Any, Buffer], parent: Any) -> None:
    if buffer.whole == 0 and buffer.has_waited:
        return
    rest = buffer.cut_unfinished()
    if rest:
        kept[parent].write(rest)
        kept[parent].has_waited = True
