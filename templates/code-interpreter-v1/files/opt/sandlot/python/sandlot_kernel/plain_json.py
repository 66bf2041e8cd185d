"""Values of Python as JSON has them. What JSON has no word for (NaN, infinity, a missing time) is null."""

from __future__ import annotations

import datetime
import math
import sys
from typing import Any

import orjson

from .limits import MAX_JSON_BYTES

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def container(value: Any) -> Any | None:
    """A list or dict with all that is in it; None if that cannot be, for a cycle, an unknown type or its size."""
    try:
        text = orjson.dumps(value, default=_other, option=_OPTIONS)
    except TypeError:
        text = _with_plain_keys(value)
    if text is None or len(text) > MAX_JSON_BYTES:
        return None
    return orjson.loads(text)


def scalar(value: Any) -> Any:
    """One cell of a table. What has no form in JSON is told as text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    try:
        return orjson.loads(orjson.dumps(value, default=_other, option=_OPTIONS))
    except TypeError:
        return str(value)


def _other(value: Any) -> Any:
    """For types that the JSON library does not know."""
    if _is_missing(value):
        return None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.datetime64):
            return str(value)
        if isinstance(value, (numpy.ndarray, numpy.generic)):
            # Layouts and sizes that the library refuses. Complex numbers and records are refused again after this.
            return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _is_missing(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is getattr(pandas, "NaT", pandas) or value is getattr(pandas, "NA", pandas))


def _with_plain_keys(value: Any) -> bytes | None:
    """Once more, with numbers of numpy as keys made plain ones: only as values are they known to the library."""
    try:
        return orjson.dumps(_plain_keys(value), default=_other, option=_OPTIONS)
    except (TypeError, RecursionError):
        return None


def _plain_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain_key(key): _plain_keys(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_keys(inner) for inner in value]
    return value


def _plain_key(key: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(key, numpy.generic):
        return key.item()
    if isinstance(key, datetime.date):
        return key.isoformat()
    return key
