"""A data frame of pandas as columns of plain values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import plain_json
from .limits import MAX_CELLS

if TYPE_CHECKING:
    import pandas


def columns(frame: pandas.DataFrame) -> dict[str, list[Any]] | None:
    """By name; None if there are too many cells. Missing values are null, times are ISO 8601."""
    if frame.size > MAX_CELLS:
        return None
    found: dict[str, list[Any]] = {}
    for at, name in enumerate(_names(frame)):
        found[name] = _values(frame.iloc[:, at])
    return found


def _names(frame: pandas.DataFrame) -> list[str]:
    """As text, and each once: a second `a` is `a.1`, as pandas reads it from a file."""
    names: list[str] = []
    taken: set[str] = set()
    for column in frame.columns:
        plain = _name(column)
        name, count = plain, 0
        while name in taken:
            count += 1
            name = f"{plain}.{count}"
        taken.add(name)
        names.append(name)
    return names


def _name(column: Any) -> str:
    if isinstance(column, tuple):
        return ", ".join(_name(part) for part in column)
    return column.isoformat() if hasattr(column, "isoformat") else str(column)


def _values(column: pandas.Series) -> list[Any]:
    kind = column.dtype.kind
    if kind in "iub" and not hasattr(column.dtype, "na_value"):
        return column.tolist()
    if kind == "f":
        return [_number(value) for value in column.tolist()]
    if kind in "mM":
        return [None if value is None else value.isoformat() for value in _with_none(column)]
    return [plain_json.scalar(value) for value in _with_none(column)]


def _with_none(column: pandas.Series) -> list[Any]:
    return [None if missing is True else value for value, missing in zip(column.tolist(), column.isna().tolist())]


def _number(value: Any) -> float | None:
    return value if isinstance(value, float) and math.isfinite(value) else None
