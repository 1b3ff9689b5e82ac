"""Sliding-window stream joins on any ordered predicate."""

import logging

from slidejoin.collector import MetricsCollector
from slidejoin.drive import AsyncRun, Batch, Run
from slidejoin.errors import (
    CapacityError,
    Error,
    OrderError,
    SchemaError,
    SpecError,
    StateError,
    UsageError,
)
from slidejoin.join_type import How
from slidejoin.numeric import NumericJoin
from slidejoin.page.watch import watch
from slidejoin.predicate import (
    band,
    bands,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)
from slidejoin.ranges import Ranges
from slidejoin.result import concat
from slidejoin.stats import JoinStats
from slidejoin.table_join import join
from slidejoin.window import interval, rows, within
from slidejoin.window_join import WindowJoin

__version__ = "0.1.0"

__all__ = [
    "AsyncRun",
    "Batch",
    "CapacityError",
    "Error",
    "How",
    "JoinStats",
    "MetricsCollector",
    "NumericJoin",
    "OrderError",
    "Ranges",
    "Run",
    "SchemaError",
    "SpecError",
    "StateError",
    "UsageError",
    "WindowJoin",
    "band",
    "bands",
    "concat",
    "equal",
    "greater",
    "greater_equal",
    "interval",
    "join",
    "less",
    "less_equal",
    "not_equal",
    "rows",
    "watch",
    "within",
]

logging.getLogger("slidejoin").addHandler(logging.NullHandler())
