"""The known answers: joins whose results other systems' test suites state as facts.

A case is plain data: what is joined, the steps, and what each step must return, in the values that
were pushed. An engine is a small driver that executes the steps, so one more entry in `ENGINES` tests
a new engine against the same answers.
"""

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pytest
from window_cases import Condition, Row, Spec, id_pairs

import slidejoin as sj
from slidejoin import reference

LEFT, RIGHT = reference.LEFT, reference.RIGHT


@dataclass(frozen=True)
class Question:
    """What is joined: a predicate and a window, each as a name and its arguments."""

    on: tuple[Any, ...]
    window: tuple[Any, ...]
    self_join: bool = False
    how: str = "inner"


class Engine(Protocol):
    """The least that an engine must do to be asked the known answers."""

    def push(self, side: int, key: Any, ts: int) -> Sequence[tuple[int | None, int | None]]: ...
    def advance(self, to: int) -> Sequence[tuple[int | None, int | None]]: ...
    def finish(self) -> Sequence[tuple[int | None, int | None]]: ...
    def restart(self) -> None: ...
    @property
    def stats(self) -> dict[str, Any]: ...


class ReferenceEngine:
    """The reference behind the steps of a case."""

    windows: ClassVar = {
        "rows": reference.Rows,
        "within": reference.Within,
        "interval": reference.Interval,
    }

    def __init__(self, question: Question) -> None:
        name, *arguments = question.window
        self._join = reference.ReferenceJoin(
            self._predicate(question.on),
            self.windows[name](*arguments),
            question.how,
            question.self_join,
        )

    def _predicate(self, on: tuple[Any, ...]) -> reference.Predicate:
        name, *arguments = on
        if name == "all_of":
            return reference.all_of(*(self._predicate(part) for part in arguments))
        return getattr(reference, name)(*arguments)

    def push(self, side: int, key: Any, ts: int) -> list[reference.Result]:
        return self._join.push(side, key, ts)

    def advance(self, to: int) -> list[reference.Result]:
        return self._join.advance(to)

    def finish(self) -> list[reference.Result]:
        return self._join.finish()

    def restart(self) -> None:
        self._join = copy.deepcopy(self._join)

    @property
    def stats(self) -> dict[str, Any]:
        return self._join.stats


class WindowJoinEngine:
    """WindowJoin behind the steps of a case, one row a batch; it reads its answers off its output table.

    Integer times, or timestamps in milliseconds where `times` says so.
    """

    def __init__(self, question: Question, times: str = "int64", **options: Any) -> None:
        name, *arguments = question.on
        parts = arguments if name == "all_of" else [question.on]
        window, *durations = question.window
        unit = 1000 if times == "ms, us" else 1
        self._unit = unit
        self._spec = Spec(
            on=tuple(Condition(op, "int64", (tuple(bounds),) if bounds else ()) for op, *bounds in parts),
            window=ReferenceEngine.windows[window](
                *(part if window == "rows" else part * unit for part in durations)
            ),
            time=times,
            self_join=question.self_join,
            how=question.how,
            one_name=question.self_join or times == "int64",
        )
        # Watermarks may come before the first row: the columns are known from the start.
        self._join = self._spec.join(known=True, **options)

    def push(self, side: int, key: Any, ts: int) -> list[tuple[int | None, int | None]]:
        late = f"late_{('left', 'right')[side]}"
        position = self._join.stats[f"rows_{('left', 'right')[side]}"]
        before = self._join.stats[late]
        row = Row(side, key if isinstance(key, tuple) else (key,), ts * self._unit)
        table = self._spec.table(side, [row], [position])
        result = (
            self._join.push(table)
            if self._spec.self_join
            else self._join.push(**{("left", "right")[side]: table})
        )
        assert isinstance(result, pa.Table)
        self._join.check()
        pairs = id_pairs(self._spec, result)
        assert self._join.stats[late] == before or not pairs
        return pairs

    def advance(self, to: int) -> list[tuple[int | None, int | None]]:
        return id_pairs(self._spec, self._join.advance(self._spec.point(to * self._unit)))

    def finish(self) -> list[tuple[int | None, int | None]]:
        return id_pairs(self._spec, self._join.finish())

    def restart(self) -> None:
        self._join = sj.WindowJoin.restore(self._join.snapshot())

    @property
    def stats(self) -> dict[str, Any]:
        return self._join.stats


class RestartingEngine(WindowJoinEngine):
    """WindowJoin that goes on from a head and chunks every few steps, under one index and the other."""

    def __init__(self, question: Question, **options: Any) -> None:
        super().__init__(question, **options)
        self._chunks: dict[str, bytes] = {}
        self._token: str | None = None
        self._index = itertools.cycle(["b-tree", "nested-loop"])
        self._steps = itertools.count(1)

    def restart(self) -> None:
        new = self._join.snapshot_since(self._token)
        self._chunks.update(new.chunks)
        for name in new.dead:
            del self._chunks[name]
        self._token = new.token
        self._join = sj.WindowJoin.restore(new.head, chunks=self._chunks, index=next(self._index))

    def push(self, side: int, key: Any, ts: int) -> list[tuple[int | None, int | None]]:
        found = super().push(side, key, ts)
        if next(self._steps) % 3 == 0:
            self.restart()
        return found

    def advance(self, to: int) -> list[tuple[int | None, int | None]]:
        found = super().advance(to)
        if next(self._steps) % 3 == 0:
            self.restart()
        return found


ENGINES: dict[str, Callable[[Question], Engine]] = {
    "reference": ReferenceEngine,
    "WindowJoin": WindowJoinEngine,
    "WindowJoin b-tree": partial(WindowJoinEngine, index="b-tree"),
    "WindowJoin nested-loop": partial(WindowJoinEngine, index="nested-loop"),
    "WindowJoin on timestamps": partial(WindowJoinEngine, times="ms, us"),
    "WindowJoin with restarts": partial(RestartingEngine, times="ms, us"),
}


@dataclass
class Run:
    """An engine and the values behind its positions."""

    engine: Engine
    self_join: bool = False
    values: tuple[list[Any], list[Any]] = field(default_factory=lambda: ([], []))

    def push(self, side: int, key: Any, ts: int = 0, label: Any = None) -> list[tuple[Any, Any]]:
        """Push one row and return its pairs as values; a late row takes no position."""
        late_before = self.late()
        results = self.engine.push(side, key, ts)
        if self.late() == late_before:
            self.values[side].append(key if label is None else label)
        return self.named(results)

    def watermark(self, at: int) -> list[tuple[Any, Any]]:
        """What other systems call this watermark: nothing at or before it comes any more."""
        return self.named(self.engine.advance(at + 1))

    def finish(self) -> list[tuple[Any, Any]]:
        return self.named(self.engine.finish())

    def named(self, results: Sequence[tuple[int | None, int | None]]) -> list[tuple[Any, Any]]:
        """Put values for positions; None stays where there is no partner."""
        values = self.values[LEFT], self.values[LEFT if self.self_join else RIGHT]
        return [
            tuple(None if at is None else values[side][at] for side, at in enumerate(pair))
            for pair in results
        ]

    def times(self, side: int, *times: int) -> list[tuple[int, int]]:
        """Push rows that are nothing but a time."""
        return [pair for time in times for pair in self.push(side, time, time)]

    def late(self) -> tuple[int, int]:
        return self.engine.stats["late_left"], self.engine.stats["late_right"]

    def stored(self) -> tuple[int, int]:
        return self.engine.stats["stored_left"], self.engine.stats["stored_right"]


@pytest.fixture(params=ENGINES)
def start(request: pytest.FixtureRequest) -> Callable[[Question], Run]:
    """Return a function that starts a run of one engine."""
    engine = ENGINES[request.param]
    return lambda question: Run(engine(question), question.self_join)


def time_band(lower: int, upper: int) -> list[Question]:
    """Ask for `lower <= right.t - left.t <= upper` by event time, and by key in a long window."""
    return [
        Question(on=("band", -(10**6), 10**6), window=("interval", -lower, upper)),
        Question(on=("band", lower, upper), window=("rows", 100, 100)),
    ]


def event_time(lower: int, upper: int) -> Question:
    return time_band(lower, upper)[0]


def near(left: range, right: range, lower: int, upper: int) -> list[tuple[int, int]]:
    return [(i, j) for i in left for j in right if lower <= j - i <= upper]


INTERLEAVINGS = {
    "left first": [(LEFT, t) for t in range(1, 5)] + [(RIGHT, t) for t in range(1, 5)],
    "right first": [(RIGHT, t) for t in range(1, 5)] + [(LEFT, t) for t in range(1, 5)],
    "in turn": [(side, t) for t in range(1, 5) for side in (LEFT, RIGHT)],
    "backwards": [(side, t) for t in range(4, 0, -1) for side in (RIGHT, LEFT)],
}
FOUR_BY_FOUR = {
    "1": (1, 2, [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]),
    "1 mirrored": (-2, -1, [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)]),
    "2": (-1, 1, near(range(1, 5), range(1, 5), -1, 1)),
}


@pytest.mark.parametrize("arrivals", INTERLEAVINGS.values(), ids=INTERLEAVINGS)
@pytest.mark.parametrize("case", FOUR_BY_FOUR.values(), ids=FOUR_BY_FOUR)
@pytest.mark.parametrize("form", [0, 1], ids=["by time", "by key"])
def test_1_and_2_four_by_four(start, case, arrivals, form):
    lower, upper, expected = case
    run = start(time_band(lower, upper)[form])
    assert sorted(p for side, t in arrivals for p in run.times(side, t)) == expected


def test_2_has_ten_pairs():
    assert len(FOUR_BY_FOUR["2"][2]) == 10


def test_3_rows_kept_as_the_watermark_moves(start):
    run = start(event_time(-1, 0))
    run.times(LEFT, *range(1, 6))
    run.times(RIGHT, *range(1, 6))
    kept = []
    for watermark in (1, 4, 6):
        run.watermark(watermark)
        kept.append(run.stored())
    assert kept == [(4, 5), (1, 2), (0, 0)]


@pytest.mark.parametrize("form", [0, 1], ids=["by time", "by key"])
def test_4_restart_loses_and_repeats_nothing(start, form):
    run = start(time_band(-1, 1)[form])
    before = [p for t in (1, 2, 3) for side in (LEFT, RIGHT) for p in run.times(side, t)]
    assert sorted(before) == near(range(1, 4), range(1, 4), -1, 1)
    assert len(before) == 7
    run.engine.restart()
    assert run.times(LEFT, 4) + run.times(RIGHT, 4) == [(4, 3), (3, 4), (4, 4)]


def test_5_late_rows_meet_nobody(start):
    run = start(event_time(-1, 1))
    run.watermark(3)
    assert run.times(LEFT, 1) + run.times(RIGHT, 2) == []
    assert run.late() == (1, 1)
    assert run.times(LEFT, 4, 5) + run.times(RIGHT, 4, 5) == [(4, 4), (5, 4), (4, 5), (5, 5)]
    assert run.late() == (1, 1)


def test_6_disorder_between_watermarks(start):
    run = start(event_time(-1, 1))
    pairs = run.times(LEFT, 5, 1, 4, 3, 2) + run.times(RIGHT, 2, 1, 3, 4, 5)
    run.watermark(5)
    pairs += run.times(LEFT, 9, 8, 7, 6) + run.times(RIGHT, 8, 7, 9, 6)
    assert sorted(pairs) == near(range(1, 10), range(1, 10), -1, 1)
    assert len(pairs) == 25


def test_7_asymmetric_bounds_and_late_rows(start):
    run = start(event_time(-5, 10))
    run.times(LEFT, 20)
    assert run.times(RIGHT, 14, 15, 25, 26, 30, 31) == [(20, t) for t in (15, 25, 26, 30)]
    run.times(RIGHT, 60)
    assert run.times(LEFT, 49, 50, 65, 66) == [(50, 60), (65, 60)]

    run.watermark(30)
    assert run.times(LEFT, 30) == []
    assert run.late() == (1, 0)
    assert run.times(LEFT, 31) == [(31, 26), (31, 30), (31, 31)]

    assert run.times(RIGHT, 80) == []
    run.watermark(46)
    assert run.times(RIGHT, 46) == []
    assert run.late() == (1, 1)
    assert run.times(RIGHT, 50) == [(49, 50), (50, 50)]


@pytest.mark.parametrize(("distance", "pairs"), [(1, 3), (2, 7), (3, 12)])
@pytest.mark.parametrize("form", [0, 1], ids=["by time", "by key"])
@pytest.mark.parametrize("first", [LEFT, RIGHT])
def test_8_number_of_pairs_within_a_distance(start, distance, pairs, form, first):
    times = {LEFT: (-1, 0, 2, 3, 7, 13), RIGHT: (2, 5, 6, 10, 15)}
    run = start(time_band(-distance, distance)[form])
    second = 1 - first
    assert len(run.times(first, *times[first]) + run.times(second, *times[second])) == pairs


def test_9_two_inequalities_in_a_self_join(start):
    question = Question(("all_of", ("greater",), ("less",)), ("rows", 10, 10), self_join=True)
    run = start(question)
    west = {"s1": (100, 6), "s2": (140, 11), "s3": (80, 10), "s4": (90, 5)}
    pairs = [p for name, row in west.items() for p in run.push(LEFT, row, label=name)]
    assert sorted(pairs) == [("s1", "s3"), ("s4", "s3")]


@pytest.mark.parametrize("window", [("interval", 100, 100), ("within", 100)])
def test_10_equality_within_a_hundred(start, window):
    run = start(Question(("equal",), window))
    for key in range(4):
        assert run.push(LEFT, key, 1000 + key) == []
    at_1100 = [pair for key in range(4) for pair in run.push(RIGHT, key, 1100)]
    at_1101 = [pair for key in range(4) for pair in run.push(RIGHT, key, 1101)]
    assert at_1100 == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert at_1101 == [(1, 1), (2, 2), (3, 3)]


# --- The same facts as other join types: who has no partner, read off the pairs by hand ---


def by_type(pairs, lone_left, lone_right):
    """What each join type brings out in all."""
    left = [(value, None) for value in lone_left]
    right = [(None, value) for value in lone_right]
    return {
        "left": pairs + left,
        "right": pairs + right,
        "full": pairs + left + right,
        "left_semi": [(value, None) for value in sorted({value for value, _ in pairs})],
        "left_anti": left,
        "right_semi": [(None, value) for value in sorted({value for _, value in pairs})],
        "right_anti": right,
    }


TYPES = tuple(by_type([], [], []))
LONE = {"1": ([4], [1]), "1 mirrored": ([1], [4]), "2": ([], [])}


@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize("arrivals", INTERLEAVINGS.values(), ids=INTERLEAVINGS)
@pytest.mark.parametrize("case", FOUR_BY_FOUR)
@pytest.mark.parametrize("form", [0, 1], ids=["by time", "by key"])
def test_1_and_2_in_every_join_type(start, case, arrivals, form, how):
    lower, upper, pairs = FOUR_BY_FOUR[case]
    run = start(replace(time_band(lower, upper)[form], how=how))
    matched = [p for side, t in arrivals for p in run.times(side, t)]
    assert sorted(matched + run.finish(), key=str) == sorted(by_type(pairs, *LONE[case])[how], key=str)


@pytest.mark.parametrize("how", TYPES)
def test_5_late_rows_are_in_no_join_type(start, how):
    run = start(replace(event_time(-1, 1), how=how))
    run.watermark(3)
    assert run.times(LEFT, 1) + run.times(RIGHT, 2) == []
    assert run.finish() == []
    assert run.late() == (1, 1)


def test_7_as_a_full_join(start):
    """Right 14 is nobody's partner and goes first; left 66 and right 80 wait until the end."""
    run = start(replace(event_time(-5, 10), how="full"))
    run.times(LEFT, 20)
    assert run.times(RIGHT, 14, 15, 25, 26, 30, 31) == [(20, t) for t in (15, 25, 26, 30)]
    run.times(RIGHT, 60)
    run.times(LEFT, 49, 50, 65, 66)
    assert run.watermark(18) == []
    assert run.watermark(30) == [(None, 14)]
    assert run.times(LEFT, 30, 31) == [(31, 26), (31, 30), (31, 31)]
    run.times(RIGHT, 80)
    assert run.watermark(46) == []
    assert run.times(RIGHT, 46, 50) == [(49, 50), (50, 50)]
    assert run.finish() == [(66, None), (None, 80)]


@pytest.mark.parametrize(
    ("distance", "lone_left", "lone_right"), [(1, [-1, 0, 13], [5, 10, 15]), (2, [-1], [10]), (3, [], [])]
)
@pytest.mark.parametrize("form", [0, 1], ids=["by time", "by key"])
@pytest.mark.parametrize("how", TYPES)
def test_8_rows_without_a_partner_within_a_distance(start, distance, lone_left, lone_right, form, how):
    times = {LEFT: (-1, 0, 2, 3, 7, 13), RIGHT: (2, 5, 6, 10, 15)}
    pairs = near(times[LEFT], times[RIGHT], -distance, distance)
    run = start(replace(time_band(-distance, distance)[form], how=how))
    found = run.times(LEFT, *times[LEFT]) + run.times(RIGHT, *times[RIGHT]) + run.finish()
    assert sorted(found, key=str) == sorted(by_type(pairs, lone_left, lone_right)[how], key=str)


@pytest.mark.parametrize("window", [("interval", 100, 100), ("within", 100)])
def test_10_the_fourth_right_row_has_no_partner_left(start, window):
    run = start(Question(("equal",), window, how="right"))
    for key in range(4):
        run.push(LEFT, key, 1000 + key)
    for at in (1100, 1101):
        for key in range(4):
            run.push(RIGHT, key, at)
    assert run.finish() == [(None, 0)]
