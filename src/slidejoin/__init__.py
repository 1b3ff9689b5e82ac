"""Sliding-window stream joins on any ordered predicate."""

import logging

from slidejoin.errors import (
    CapacityError,
    Error,
    OrderError,
    SchemaError,
    SpecError,
    StateError,
    UsageError,
)
from slidejoin.numeric import NumericJoin
from slidejoin.window import rows, within

__version__ = "0.1.0"

__all__ = [
    "CapacityError",
    "Error",
    "NumericJoin",
    "OrderError",
    "SchemaError",
    "SpecError",
    "StateError",
    "UsageError",
    "rows",
    "within",
]

logging.getLogger("slidejoin").addHandler(logging.NullHandler())
