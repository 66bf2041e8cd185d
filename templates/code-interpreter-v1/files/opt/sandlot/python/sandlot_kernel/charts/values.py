"""Single values of charts, as JSON has them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Any

import numpy


def finite(value: Any) -> float | None:
    """Gaps in a line are NaN, and JSON has no word for that."""
    number = float(value)
    return number if math.isfinite(number) else None


def rounded(value: float) -> float:
    """As clients have always got them: 8 digits, less those before the point. Angles are drawn in single precision."""
    value = float(value)
    if value == 0 or not math.isfinite(value):
        return 0.0
    digits = max(1, 8 - math.floor(math.log10(abs(value))))
    return float(f"{value:.{digits}g}")


def coordinates(given: Any, drawn: Any) -> list[Any]:
    """As the user gave them: times and names stay what they are. What is neither is told as it is drawn."""
    drawn = numpy.ma.filled(numpy.ma.asarray(drawn, dtype=float), numpy.nan)
    given = numpy.asarray(_filled(given), dtype=None if isinstance(given, numpy.ndarray) else object).reshape(-1)
    if given.dtype.kind in "biuf" or len(given) != len(drawn):
        return [finite(value) for value in drawn]
    return [_coordinate(value, place) for value, place in zip(given, drawn)]


def points(xs: Iterable[Any], ys: Iterable[Any]) -> list[list[Any]]:
    return [[x, y] for x, y in zip(xs, ys)]


def _filled(given: Any) -> Any:
    return given.filled(numpy.nan) if isinstance(given, numpy.ma.MaskedArray) and given.dtype.kind == "f" else given


def _coordinate(value: Any, place: float) -> Any:
    if isinstance(value, numpy.datetime64):
        return None if numpy.isnat(value) else str(numpy.datetime_as_string(value, unit="s"))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "to_timestamp"):
        # A period of pandas.
        return value.to_timestamp().isoformat()
    return finite(place)
