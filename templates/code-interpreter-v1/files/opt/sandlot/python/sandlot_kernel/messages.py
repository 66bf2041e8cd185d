"""Messages from the kernel to the server, as JSON that every reader takes."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from jupyter_client.jsonutil import json_default

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_COMPACT = (",", ":")


def make_ascii(shell: InteractiveShell) -> None:
    """Text may hold halves of characters (`"\\ud83d"`), which no UTF-8 has; escaped, they pass, and nothing is lost."""
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        kernel.session.pack = pack


def pack(content: Any) -> bytes:
    try:
        text = json.dumps(content, default=json_default, allow_nan=False, separators=_COMPACT)
    except (TypeError, ValueError):
        text = json.dumps(_plain(content), default=str, allow_nan=False, separators=_COMPACT)
    return text.encode("ascii")


def _plain(content: Any) -> Any:
    """Values that a user has put into a display as they are: keys become text, and what is no number null."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple, set, frozenset)):
        return [_plain(value) for value in content]
    try:
        return json_default(content)
    except TypeError:
        return content
