"""Bounds of what a value may add to a result. Beyond them it is shown as plain text, and HTML where it has that."""

#: Cells of a data frame that are sent as `data`: some twenty megabytes of JSON.
MAX_CELLS = 1_000_000

#: Points of all lines and collections of a figure that are sent as `chart`.
MAX_POINTS = 250_000

#: Bytes of the JSON of a list or dict.
MAX_JSON_BYTES = 32 * 1024 * 1024
