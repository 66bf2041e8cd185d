"""Images of PIL: saving one to a path, or showing it, displays it."""

from __future__ import annotations

import functools
import os
from typing import Any

from IPython.display import display


def display_what_is_saved() -> None:
    """To a path, that is: an image that is written into memory or into an open file is on its way to somewhere."""
    from PIL import Image

    kernel = os.getpid()
    plain_save = Image.Image.save

    @functools.wraps(plain_save)
    def save(self: Image.Image, fp: Any, format: str | None = None, **params: Any) -> None:
        plain_save(self, fp, format, **params)
        # A copy of this process (multiprocessing) has nobody to display it to.
        if isinstance(fp, (str, bytes, os.PathLike)) and os.getpid() == kernel:
            _display(self)

    def show(self: Image.Image, title: str | None = None) -> None:
        """Displays this image."""
        _display(self)

    Image.Image.save = save
    Image.Image.show = show


def _display(image: Any) -> None:
    """What was saved is saved, whether it can be shown or not."""
    try:
        display(image)
    except Exception:  # noqa: BLE001: it may be of any class
        return
