"""The native core of slidejoin. Use slidejoin.NumericJoin."""

from collections.abc import Sequence
from typing import Any

import numpy.typing


def levels() -> list[str]:
    """Instruction sets that this processor can run, slowest first."""

def indexes() -> dict[str, list[tuple[str, float, float, float, str]]]:
    """
    The indexes, each with its parameters: name, default, least, most, meaning.
    """

def hash_bytes(offsets: object, data: object) -> numpy.typing.NDArray[Any]:
    """A 64-bit hash of each value, the same on every machine."""

def take(values: object, rows: object, out: object) -> None:
    """Values of an unsigned type, by row, into `out`."""

def take_bytes(offsets: object, data: object, rows: object) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]:
    """Byte strings by row: their offsets and their bytes."""

def merge(runs: list[tuple[object, int, int]]) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]:
    """
    Sorted runs (times, side, undated) as one sequence: sides, and places of left and of right rows.
    """

def join_tables(*, on: object, equalities: int, banded: str, left: list[tuple[object, object]], right: list[tuple[object, object]], flags_of: int, workers: int, share: int, limit: int, level: str) -> tuple[numpy.typing.NDArray[Any], ...]:
    """
    All pairs of rows of two tables, by number, or with flags_of 0 or 1 whether each row of a side has one.
    """

class NativeJoin:
    def __init__(self, *, on: Sequence[tuple[str, Sequence[tuple[tuple[int, int, int, float], tuple[int, int, int, float]]]]], index: str, window: str, left: int = 0, right: int = 0, duration: int = 0, self_purge: bool = False, before: int = 0, after: int = 0, lateness: int | None = None, self_join: bool, sorted: bool = True, group: int, level: str, equalities: int = 0, banded: str = 'conjunct', finals: tuple[bool, bool] = (False, False), options: Sequence[tuple[str, float]] = []) -> None: ...

    def push(self, sides: object, keys: object, times: object, null_times: object = None) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...

    def count(self, sides: object, keys: object, times: object, null_times: object = None) -> int: ...

    def ranges(self, sides: object, keys: object, times: object, null_times: object = None) -> tuple[tuple[numpy.typing.NDArray[Any], ...], tuple[numpy.typing.NDArray[Any], ...], numpy.typing.NDArray[Any], list[tuple[int, numpy.typing.NDArray[Any]]], numpy.typing.NDArray[Any]]: ...

    def push_rows(self, sides: object, keys: list[tuple[object, object]], times: object, null_times: object, store: bool = True) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...

    def renumbered(self, side: int) -> numpy.typing.NDArray[Any]: ...

    def finals(self) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...

    def state(self) -> dict[str, Any]: ...

    def unseen(self, side: int, first: int, after: int) -> numpy.typing.NDArray[Any]: ...

    def load(self, state: dict[str, Any], left: object, right: object) -> None: ...

    def advance(self, to: int, side: int) -> None: ...

    def idle(self, side: int) -> None: ...

    def stats(self) -> dict[str, Any]: ...

    def index(self) -> tuple[str, str, int]: ...

    def check(self) -> None: ...

class NativeOutcome:
    def __init__(self, preserves: tuple[bool, bool], only: int) -> None: ...

    def uses(self, side: int) -> bool: ...

    def extend(self, side: int, next: int) -> None: ...

    def limit(self, side: int, first: int, next: int) -> None: ...

    def renumber(self, side: int, old: object, first: int) -> None: ...

    def write(self, left: object, right: object, wanted: object, finals: object) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...

    def finish(self) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...

    def flags(self, side: int) -> numpy.typing.NDArray[Any]: ...

    def load(self, side: int, first: int, flags: object) -> None: ...

    @property
    def memory_bytes(self) -> int: ...
