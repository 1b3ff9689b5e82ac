"""The native core of slidejoin. Use slidejoin.NumericJoin."""

from typing import Any

import numpy.typing


def levels() -> list[str]:
    """Instruction sets that this processor can run, slowest first."""

def indexes() -> list[str]:
    """Names of the indexes."""

class NativeJoin:
    def __init__(self, *, key: str, index: str, time_window: bool, left: int, right: int, duration: int, lower: tuple[int, int, float], upper: tuple[int, int, float], self_join: bool, group: int, level: str) -> None: ...

    def push(self, sides: object, keys: object, times: object, null_times: bool = False) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...

    def count(self, sides: object, keys: object, times: object, null_times: bool = False) -> int: ...

    def stats(self) -> dict[str, int]: ...

    def check(self) -> None: ...
