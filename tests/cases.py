"""Joins to test with: how hypothesis draws them, how ours and the reference run them."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin import isa, reference
from slidejoin.spec import KEY_TYPES, check_bounds

INDEXES = ("nested-loop", "b-tree")
GROUPS = (1, 2, 16, 17, 64, None)


@dataclass(frozen=True)
class Case:
    """A join and its whole input, in Python values."""

    key: str
    window: int | tuple[int, int] | sj.window.Within
    lower: float
    upper: float
    self_join: bool
    arrivals: tuple[tuple[int, float, int], ...]  # (side, key, time)

    @property
    def dtype(self):
        return np.dtype(self.key)

    @property
    def timed(self):
        return isinstance(self.window, sj.window.Within)

    def arrays(self, start=0, stop=None):
        part = self.arrivals[start:stop]
        sides = np.array([side for side, _, _ in part], np.uint8)
        keys = np.array([key for _, key, _ in part], self.dtype)
        times = np.array([time for _, _, time in part], np.int64) if self.timed else None
        return sides, keys, times

    def join(self, **options):
        return sj.NumericJoin(
            self.window, self.lower, self.upper, self.key, self_join=self.self_join, **options
        )


def keys_of(key):
    """Keys of a type that collide, meet its ends, and go everywhere."""
    dtype = np.dtype(key)
    if dtype.kind == "f":
        width = 8 * dtype.itemsize
        return st.one_of(
            st.sampled_from([0.0, -0.0, 0.1, 0.3, 0.4, -0.5, 1.0, 2.0, math.inf, -math.inf, math.nan]),
            st.sampled_from([float(np.finfo(dtype).max), float(-np.finfo(dtype).max)]),
            st.floats(width=width),
            st.floats(-3, 3, width=width),
        )
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    middle = (low + high + 1) // 2
    return st.one_of(
        st.integers(middle - 6, middle + 6),
        st.integers(low, low + 3),
        st.integers(high - 3, high),
        st.integers(low, high),
    )


def bounds_of(key):
    """Bands of a type: narrow, wide, one-sided, wider than the type."""
    dtype = np.dtype(key)
    if dtype.kind == "f":
        bound = st.one_of(
            st.sampled_from([0.0, 0.1, 0.3, -0.3, 1.0, 1e10]),
            st.floats(-4, 4, width=8 * dtype.itemsize),
            st.floats(width=8 * dtype.itemsize, allow_nan=False, allow_infinity=False),
        ).filter(lambda value: key == "float64" or math.isfinite(reference.to_float32(value)))
    else:
        span = 2 ** (8 * dtype.itemsize)
        bound = st.one_of(
            st.integers(-4, 4),
            st.fractions(-3, 3),
            st.integers(-span - 2, span + 2),
            st.sampled_from([span - 1, 1 - span, span, -span, 2**70, -(2**70)]),
        )
    return st.tuples(bound, bound).map(sorted)


@st.composite
def cases(draw, keys=KEY_TYPES, max_size=120, self_joins=True):
    key = draw(st.sampled_from(keys))
    self_join = self_joins and draw(st.booleans())
    sizes = st.sampled_from([1, 2, 3, 7, 20, 50, 1000])
    window = draw(
        st.one_of(
            sizes,
            st.tuples(sizes, sizes).map(lambda pair: (pair[0], pair[0]) if self_join else pair),
            st.sampled_from([1, 2, 5, 30, 2**63]).map(sj.within),
        )
    )
    lower, upper = draw(bounds_of(key))
    steps = draw(
        st.lists(
            st.tuples(st.integers(0, 1), keys_of(key), st.sampled_from([0, 0, 1, 2, 9])),
            max_size=max_size,
        )
    )
    time = draw(st.sampled_from([0, -(2**63), 2**62]))
    arrivals = []
    for side, value, step in steps:
        time += step
        arrivals.append((side, value, time))
    return Case(key, window, lower, upper, self_join, tuple(arrivals))


def pairs(arrays):
    left, right = arrays
    return list(zip(left.tolist(), right.tolist(), strict=True))


def run(case, *, splits=(), level=None, checked=True, **options):
    """Pairs of a whole run, pushed in parts that end at the given places."""
    with isa.use(level or isa.current()):
        join = case.join(**options)
    found = []
    edges = [0, *sorted(splits), len(case.arrivals)]
    for start, stop in itertools.pairwise(edges):
        found += pairs(join.push(*case.arrays(start, stop)))
        if checked:
            join.check()
    return found, join.stats


def expected(case):
    """The reference's pairs and counters."""
    kind = case.key if case.dtype.kind == "f" else "int"
    lower, upper = case.lower, case.upper
    if kind != "int":
        lower, upper = check_bounds(lower, upper, case.dtype)
    if case.timed:
        window = reference.Within(case.window.duration)
    else:
        left, right = case.window if isinstance(case.window, tuple) else (case.window, case.window)
        window = reference.Rows(left, right)
    join = reference.ReferenceJoin(reference.band(lower, upper, kind), window, self_join=case.self_join)
    found = []
    for (side, _, time), key in zip(case.arrivals, case.arrays()[1].tolist(), strict=True):
        found += join.push(side, key, time)
    return found, join.stats


@st.composite
def bulk_cases(draw):
    """Joins of thousands of rows, enough for nodes to split and merge: hypothesis draws, NumPy makes them."""
    key = draw(st.sampled_from(KEY_TYPES))
    dtype = np.dtype(key)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.sampled_from([300, 1000, 3000]))
    self_join = draw(st.booleans())
    window = draw(st.sampled_from([1, 5, 200, 900]))
    if draw(st.booleans()):
        window = sj.within(window)
    elif not self_join and draw(st.booleans()):
        window = (window, draw(st.sampled_from([1, 30, 700])))
    steps = np.arange(n)
    spread = 2 ** (8 * dtype.itemsize - 2) if dtype.kind != "f" else 1e6
    shape = draw(st.sampled_from(["uniform", "few", "rising", "falling", "drift", "sawtooth"]))
    values = {
        "uniform": rng.random(n) * spread,
        "few": rng.integers(0, 4, n),
        "rising": steps * (spread / n),
        "falling": (n - steps) * (spread / n),
        "drift": rng.normal(0, spread / 50, n) + spread / 2 + steps * (spread / 4 / n),
        "sawtooth": steps % 97 * (spread / 97),
    }[shape]
    values = np.clip(values, 0, spread).astype(dtype).tolist()
    nulls = draw(st.sampled_from([0.0, 0.01, 0.5])) if dtype.kind == "f" else 0.0
    values = [math.nan if lost else value for value, lost in zip(values, rng.random(n) < nulls, strict=True)]
    width = int(draw(st.sampled_from([0, 1, 30])) * spread / 1000) if dtype.kind != "f" else draw(
        st.sampled_from([0.0, 1.0, 3e4])
    )  # fmt: skip
    lower = draw(st.sampled_from([-width, 0, width]))
    sides = (rng.random(n) < draw(st.sampled_from([0.02, 0.5, 1.0]))).astype(int).tolist()
    times = np.cumsum(rng.integers(0, 3, n)).tolist()
    arrivals = tuple(zip(sides, values, times, strict=True))
    return Case(key, window, lower, lower + width, self_join, arrivals)
