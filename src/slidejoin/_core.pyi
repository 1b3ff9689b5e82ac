"""The native core of slidejoin. Use slidejoin.NumericJoin."""

from collections.abc import Sequence
from typing import Any

import numpy.typing


def levels() -> list[str]:
    """Instruction sets that this processor can run, slowest first."""

def indexes() -> list[str]:
    """Names of the indexes."""

def hash_bytes(offsets: object, data: object) -> numpy.typing.NDArray[Any]:
    """A 64-bit hash of each value, the same on every machine."""

def take(values: object, rows: object) -> numpy.typing.NDArray[Any]:
    """Values of an unsigned type, by row."""

def take_bytes(offsets: object, data: object, rows: object) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]:
    """Byte strings by row: their offsets and their bytes."""

class NativeJoin:
    def __init__(self, *, on: Sequence[tuple[str, Sequence[tuple[tuple[int, int, int, float], tuple[int, int, int, float]]]]], index: str, window: str, left: int = 0, right: int = 0, duration: int = 0, self_purge: bool = False, before: int = 0, after: int = 0, lateness: int | None = None, self_join: bool, sorted: bool = True, group: int, level: str) -> None: ...

    def push(self, sides: object, keys: object, times: object, null_times: object = None) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...

    def count(self, sides: object, keys: object, times: object, null_times: object = None) -> int: ...

    def push_rows(self, sides: object, keys: list[tuple[object, object]], times: object, null_times: object) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...

    def renumbered(self, side: int) -> numpy.typing.NDArray[Any]: ...

    def advance(self, to: int, side: int) -> None: ...

    def idle(self, side: int) -> None: ...

    def stats(self) -> dict[str, Any]: ...

    def check(self) -> None: ...
