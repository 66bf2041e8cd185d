"""How values of a cell are shown: which of their forms goes into a result, by MIME type."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.formatters import BaseFormatter
from traitlets import Unicode

from . import charts, frames, long_text, plain_json

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def register(shell: InteractiveShell) -> None:
    # The trait alone leaves tracebacks as they are.
    shell.run_line_magic("colors", "NoColor")
    formatter = shell.display_formatter
    # Long sequences are shown whole.
    formatter.formatters["text/plain"].max_seq_length = 0
    long_text.lay_out_quickly(formatter.formatters["text/plain"])
    for kind in (DataFormatter, ChartFormatter):
        formatter.formatters[kind.format_type.default_value] = kind(parent=formatter)
    formatter.active_types = formatter.format_types

    for kind in (list, dict):
        formatter.formatters["application/json"].for_type(kind, _quiet(plain_json.container))


class AddedFormatter(BaseFormatter):
    """One for objects of a single class. If the module of that is not loaded, no object can be of it."""

    _return_type = dict
    module: str
    name: str

    def __call__(self, obj: Any) -> dict[str, Any] | None:
        kind = getattr(sys.modules.get(self.module), self.name, None)
        # Not by the formatter's own tables: matplotlib takes figures out of all of them when its format is changed.
        if not self.enabled or kind is None or not isinstance(obj, kind):
            return None
        return self.show(obj)

    def show(self, obj: Any) -> dict[str, Any] | None:
        raise NotImplementedError


class DataFormatter(AddedFormatter):
    format_type = Unicode("e2b/data")
    module, name = "pandas", "DataFrame"

    def show(self, obj: Any) -> dict[str, Any] | None:
        return _quiet(frames.columns)(obj)


class ChartFormatter(AddedFormatter):
    format_type = Unicode("e2b/chart")
    module, name = "matplotlib.figure", "Figure"

    def show(self, obj: Any) -> dict[str, Any]:
        """A figure always has one; it is empty when it cannot be understood."""
        return _quiet(charts.of_figure)(obj) or {}


def _quiet(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Nobody has asked for these forms by name: if one cannot be made, the others are shown without a word."""

    def quiet(value: Any) -> Any:
        try:
            return show(value)
        except Exception:  # noqa: BLE001: values may raise whatever they like
            return None

    return quiet
