"""
Long lists, tuples and dicts of plain values as text, the way IPython lays them out, one value on a line. It does so
itself, but asks of every value how to break it: a dict of a million numbers takes it half a minute, and this a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.formatters import PlainTextFormatter
    from IPython.lib.pretty import RepresentationPrinter

    Printer = Callable[[Any, RepresentationPrinter, bool], None]

#: Far more than fit on a line, so that there is no choice how to lay them out.
_LONG = 1000
_PLAIN = frozenset((int, float, str, bool, type(None)))


def lay_out_quickly(formatter: PlainTextFormatter) -> None:
    printers = formatter.type_printers
    for kind, brackets in ((list, "[]"), (tuple, "()"), (dict, "{}")):
        printers[kind] = _printer(kind, brackets, printers[kind], formatter)


def _printer(kind: type, brackets: str, usual: Printer, formatter: PlainTextFormatter) -> Printer:
    def show(value: Any, printer: RepresentationPrinter, cycle: bool) -> None:
        # `%precision` gives floats another form.
        is_usual = type(value) is not kind or len(value) < _LONG or formatter.float_format != "%r"
        if is_usual or printer.max_seq_length or not _is_plain(value):
            usual(value, printer, cycle)
            return
        printer.begin_group(1, brackets[0])
        printer.text((",\n" + " " * printer.indentation).join(_texts(value)))
        printer.end_group(1, brackets[1])

    return show


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict) and not _PLAIN.issuperset(map(type, value.values())):
        return False
    return _PLAIN.issuperset(map(type, value))


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return (f"{key!r}: {inner!r}" for key, inner in value.items())
    return map(repr, value)
