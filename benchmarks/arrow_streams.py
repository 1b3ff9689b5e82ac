"""What the benchmarks of WindowJoin share: streams as tables of Arrow, joins that are full, runs of pushes.

Only pushes count. The arrivals of a run are made at the end of the run before it, and a result is added up
outside the time.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.foundation import Answer
from benchmarks.measure import alternate, rates
from benchmarks.report import Result, measured
from benchmarks.workload import Workload
from slidejoin.join_type import How
from slidejoin.predicate import Predicate
from slidejoin.window import Window
from slidejoin.window_join import WindowJoin

# One push: to NumericJoin as (sides, keys), to WindowJoin as the arguments of push.
NumericPush: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int32]]
TablePush: TypeAlias = dict[str, pa.Table]

Push = TypeVar("Push")
# Makes the pushes of a part of a stream: from its first arrival, the count, and how many go into a push.
Cut: TypeAlias = Callable[[int, int, int], list[Push]]


class Stream:
    """The rows of a workload, cut into pushes.

    Parameters
    ----------
    payload : str
        ``"numbers"``, or ``"strings"`` for one column more.
    extra : function, optional
        Makes further columns, or others in place of these, from the first arrival's number and the count of
        arrivals.
    """

    def __init__(
        self,
        workload: Workload,
        payload: str = "numbers",
        extra: Callable[[int, int], dict[str, Any]] | None = None,
    ) -> None:
        self.workload = workload
        self._strings = payload == "strings"
        self._extra = extra

    def table(self, start: int, count: int) -> pa.Table:
        """The rows of these arrivals; ``id`` is the position of a row on its side."""
        numbers = np.arange(start, start + count)
        columns: dict[str, Any] = {
            "side": self.workload.sides(start, count),
            "key": self.workload.keys(start, count),
            "id": numbers // 2,
            "x": numbers * 0.25,
        }
        if self._strings:
            digits = pc.utf8_lpad(pa.array(numbers % 10**7).cast(pa.string()), 7, "0")
            columns["name"] = pc.binary_join_element_wise("item-", digits, "")
        return pa.table(columns | (self._extra(start, count) if self._extra else {}))

    def arrivals(self, start: int, count: int, push: int) -> list[TablePush]:
        """Pushes of both sides in turn."""
        return [{"arrivals": self.table(at, push)} for at in range(start, start + count, push)]

    def one_sided(self, start: int, count: int, push: int) -> list[TablePush]:
        """The same rows, half of every push on the left and then half on the right."""
        pushes = []
        for at in range(start, start + count, push):
            table = self.table(at, push).drop_columns("side")
            for i, side in enumerate(("left", "right")):
                pushes.append({side: table.take(np.arange(i, push, 2))})
        return pushes

    def numeric_arrivals(self, start: int, count: int, push: int) -> list[NumericPush]:
        """What :meth:`arrivals` are to NumericJoin."""
        sides, keys = self.workload.sides(start, count), self.workload.keys(start, count)
        return [(sides[at : at + push], keys[at : at + push]) for at in range(0, count, push)]

    def numeric_one_sided(self, start: int, count: int, push: int) -> list[NumericPush]:
        """What :meth:`one_sided` is to NumericJoin."""
        keys = self.workload.keys(start, count)
        return [
            (np.full(push // 2, side, np.uint8), keys[at + side : at + push : 2].copy())
            for at in range(0, count, push)
            for side in (0, 1)
        ]

    def warm(
        self, on: Predicate, window: Window, push: int, how: How = "inner", workers: int = 1
    ) -> WindowJoin:
        """A join whose windows are full."""
        join = WindowJoin(on, window, how, workers=workers)
        for arrivals in self.arrivals(0, self.workload.warm, max(push, self.workload.window // 2)):
            join.push(**arrivals)
        return join


class Following(Generic[Push]):
    """The next arrivals of a stream, run after run; they are made at the end of the run before."""

    def __init__(self, cut: Cut[Push], start: int, tuples: int, push: int) -> None:
        self._cut, self._next, self._tuples, self._push = cut, start, tuples, push
        self._pushes = self._make()

    def _make(self) -> list[Push]:
        pushes = self._cut(self._next, self._tuples, self._push)
        self._next += self._tuples
        return pushes

    def __enter__(self) -> list[Push]:
        return self._pushes

    def __exit__(self, *_: object) -> None:
        self._pushes = self._make()


def table_run(join: WindowJoin, following: Following[TablePush]) -> Callable[[], Answer]:
    """A run of WindowJoin: only the pushes count."""

    def run() -> Answer:
        seconds = 0.0
        matches = left_sum = right_sum = 0
        with following as pushes:
            for push in pushes:
                begin = time.perf_counter()
                table = join.push(**push)
                seconds += time.perf_counter() - begin
                matches += table.num_rows
                left_sum += pc.sum(table["id"]).as_py() or 0
                right_sum += pc.sum(table["id_right"]).as_py() or 0
        return Answer(seconds, matches, checksum(left_sum, right_sum))

    return run


class NumericPushes(Protocol):
    """Whatever joins keys as NumericJoin does."""

    def push(
        self, sides: NDArray[np.uint8], keys: NDArray[np.int32], /
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Join a batch; left and right positions of its pairs."""
        ...


def numeric_run(join: NumericPushes, following: Following[NumericPush]) -> Callable[[], Answer]:
    """A run of pushes from Python: only they count, not the adding up of what they find."""

    def run() -> Answer:
        seconds = 0.0
        matches = left_sum = right_sum = 0
        with following as pushes:
            for sides, keys in pushes:
                begin = time.perf_counter()
                left, right = join.push(sides, keys)
                seconds += time.perf_counter() - begin
                matches += len(left)
                left_sum += int(left.sum())
                right_sum += int(right.sum())
        return Answer(seconds, matches, checksum(left_sum, right_sum))

    return run


def checksum(left_sum: int, right_sum: int) -> int:
    """One number for the sums of both sides."""
    return (31 * left_sum + right_sum) % 2**64


def throughput(
    contenders: dict[str, Callable[[], float]], tuples: int, rounds: int, unit: str = "M tuples/s"
) -> Iterable[Result]:
    """A line for the rate of each contender."""
    for name, samples in alternate(contenders, rounds).items():
        yield measured(name, rates(samples, tuples), unit)
