"""Environment variables of a context and of a single call."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping


def set_variables(variables: Mapping[str, str | None] | str) -> None:
    """Sets each of them, and removes those that are None. JSON text of the same is taken, too."""
    if isinstance(variables, str):
        variables = json.loads(variables)
    for name, value in variables.items():
        if value is None:
            os.environ.pop(_text(name), None)
        else:
            os.environ[_text(name)] = _text(value)
    if "TZ" in variables:
        # Read at the start of a process, and it has started.
        time.tzset()


def _text(value: str) -> str:
    """JSON escapes taken as a Python literal leave halves of characters, which no environment can hold."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
