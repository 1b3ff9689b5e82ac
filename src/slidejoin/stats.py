"""Stats: the counters of a join, as a typed mapping."""

from datetime import datetime
from typing import TypedDict

import numpy as np


class JoinStats(TypedDict):
    """What :attr:`slidejoin.WindowJoin.stats` holds.

    Rows that are late are not among ``rows_left`` and ``rows_right``. ``stored_left`` and ``stored_right``
    count the rows that may still match, ``dropped_left`` and ``dropped_right`` those that were dropped before
    their time (``when_full="drop_oldest"``). The watermark is an integer or a point in time, as the
    timestamps are, and None before it is known. ``memory_bytes`` counts memory, ``spilled_bytes`` the files
    of a join with ``spill=``.
    """

    rows_left: int
    rows_right: int
    matches: int
    late_left: int
    late_right: int
    dropped_left: int
    dropped_right: int
    null_left: int
    null_right: int
    stored_left: int
    stored_right: int
    watermark: int | datetime | np.datetime64 | None
    memory_bytes: int
    spilled_bytes: int


_OTHERS = ("watermark", "memory_bytes", "spilled_bytes")
COUNTERS = tuple(name for name in JoinStats.__annotations__ if name not in _OTHERS)
