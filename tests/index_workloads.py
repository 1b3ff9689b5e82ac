"""Streams that judge indexes: long against their windows, of every kind of keys, with their exact results.

Windows hold some thousand tuples and turn over several times: with default parameters, subwindows and merges
have 1024 entries at least. The reference would take hours for that; :func:`oracle` compares an arrival with
its whole window in one step of NumPy instead. ``property/test_indexes.py`` proves it equal to the reference
on small streams.
"""

import itertools
import math
import os
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

import slidejoin as sj
from slidejoin import _core
from slidejoin.index import PARAMETERS

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
INDEXES = tuple(_core.indexes())
OPTIONS = ("default", "small")
# Values that make structures small, so that they are made, filled and dropped often; by parameter.
SMALL = {
    "chain_length": 4,
    "merge_ratio": 2**-10,
    "insertion_depth": 1,
    "subwindows": 3,
    "partitions": 5,
    "slack": 1.1,
    "buffer": 8,
    "min_entries": 16,
}


def index_of(name, options):
    """An index in text form, with its default or with small parameters."""
    given = [f"{parameter.name}={SMALL[parameter.name]}" for parameter in PARAMETERS[name]]
    return f"{name}({', '.join(given)})" if given and options == "small" else name


# --- Keys: numbers of which most lie in [0, 1], spread over the key type later ---


def _b_model(rng, n):
    """70 % of the keys in one half of their range, 70 % of those in one half of it, and so on."""
    halves = rng.random((n, 24)) < 0.7
    sides = np.random.default_rng(7).random(24) < 0.5  # the heavier half of each level
    return ((halves == sides) @ (2.0 ** -np.arange(1, 25))).astype(np.float64)


def _drifting(rng, n, r):
    """A Gaussian whose mean stands, moves by r per window, and stands: for 4, 10 and 4 parts of 18."""
    moving = np.clip((np.arange(n) / n * 18 - 4) / 10, 0, 1)
    return rng.normal(0.5, 0.125, n) + moving * r * (TURNS * 10 / 18)


def _ends(rng, n):
    return rng.random(n)  # of the type: see Workload.keys_of


TURNS = 4.5  # how often a window turns over
KEYS = {
    "uniform": lambda rng, n: rng.random(n),
    "zipf": lambda rng, n: rng.permutation(4096)[np.minimum(rng.zipf(1.3, n), 4096) - 1] / 4096,
    "gaussian": lambda rng, n: rng.normal(0.5, 0.125, n),
    "gamma-1-5": lambda rng, n: rng.gamma(1, 5, n) / 50,
    "gamma-3-3": lambda rng, n: rng.gamma(3, 3, n) / 50,
    "b-model": _b_model,
    **{f"drift-{r}": lambda rng, n, r=r: _drifting(rng, n, r) for r in (0, 0.2, 0.5, 1)},
    "rising": lambda _, n: np.arange(n) / n,
    "falling": lambda _, n: 1 - np.arange(n) / n,
    "equal": lambda _, n: np.full(n, 0.25),
    "two": lambda rng, n: rng.integers(0, 2, n) / 2,
    "sawtooth": lambda _, n: np.arange(n) % 997 / 997,
    "ends": _ends,
}
HEAVY = ("equal", "two", "zipf", "ends")  # many matches: they are counted, and listed only now and then
WINDOWS = ("rows", "time")
FORMS = {"tuples": (1, 300), "groups": (16, 700), "batches": (None, 1800)}  # group, rows of a push on average
JOINS = ("two-way", "self-join", "asymmetric")
TYPES = ("int32", "float32", "int64", "float64")


@dataclass(frozen=True)
class Workload:
    """A join and its whole input."""

    keys: str
    window: str
    form: str
    join: str
    dtype: str
    size: int = 2300  # tuples of a side in the window

    def __str__(self):
        return f"{self.keys}-{self.window}-{self.form}-{self.join}-{self.dtype}"

    @property
    def self_join(self):
        return self.join == "self-join"

    @property
    def group(self):
        return FORMS[self.form][0]

    @cached_property
    def _rng(self):
        return np.random.default_rng(list(f"{self} {self.size}".encode()))

    @cached_property
    def stream(self):
        """Sides, keys and times of all arrivals; asymmetric joins have more on the left."""
        sides_count = 1 if self.self_join else 2
        n = int(self.size * TURNS * sides_count)
        rng = self._rng
        sides = (rng.random(n) < {"two-way": 0.5, "self-join": 0, "asymmetric": 0.2}[self.join]).astype(
            np.uint8
        )
        # Bursts within one instant; a pause in the middle, in which the window runs empty.
        steps = rng.integers(0, 3, n) * (rng.random(n // 64 + 1) < 0.9).repeat(64)[:n]
        steps[n * 3 // 5] += 4 * self.size
        return sides, self._typed(KEYS[self.keys](rng, n)), np.cumsum(steps)

    def _typed(self, values):
        dtype = np.dtype(self.dtype)
        if self.keys == "ends":
            return self._at_the_ends(values)
        if dtype.kind == "f":
            return (values * 1000 - 400).astype(dtype)
        # The greatest drift goes up to 4; a spread that leaves room for all, on both sides of 0.
        spread = 2.0 ** (8 * dtype.itemsize - 5)
        return (values * spread - spread).astype(dtype)

    def _at_the_ends(self, values):
        dtype, rng, n = np.dtype(self.dtype), self._rng, len(values)
        if dtype.kind == "f":
            most = np.finfo(dtype).max
            special = np.array([-math.inf, -most, -1.0, -0.0, 0.0, 1.0, most, math.inf, math.nan], dtype)
            whole = ((values - 0.5) * 2 * float(most) * 0.999).astype(dtype)
        else:
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            special = np.array([least, least + 1, least + 2, 0, most - 2, most - 1, most], dtype)
            whole = rng.integers(least, most, n, dtype, endpoint=True)
        return np.where(rng.random(n) < 0.15, rng.choice(special, n), whole)

    @cached_property
    def bounds(self):
        """A band in which a tuple of a stream that is not heavy finds a handful of partners."""
        if self.keys == "ends":
            return -1, 2
        _, keys, _ = self.stream
        near = np.sort(keys[len(keys) // 2 :][: self.size].astype(np.float64))
        gaps = near[6:] - near[:-6]
        width = float(np.median(gaps[gaps > 0])) / 2 if (gaps > 0).any() else 1.0
        if self.keys in HEAVY:
            width = min(width, 1.0)
        if np.dtype(self.dtype).kind != "f":
            return -int(width * 0.75) - 1, int(width)
        return -width * 0.75, width

    @cached_property
    def limits(self):
        """Tuples that are kept of each side, or a duration."""
        if self.window == "time":
            return self.size if self.self_join else int(self.size * 1.8)
        return (self.size, self.size // 3) if self.join == "asymmetric" else (self.size, self.size)

    @cached_property
    def pushes(self):
        """The stream in pieces, as (start, stop, listed); the others are only counted."""
        n = len(self.stream[0])
        average = FORMS[self.form][1]
        heavy = self.keys in HEAVY
        pieces, start = [], 0
        while start < n:
            number = len(pieces)
            listed = number % 2 == 1 if heavy else number % 4 != 2
            size = int(self._rng.integers(1, 60 if heavy and listed else 2 * average))
            stop = min(start + (1 if number % 7 == 3 else size), n)
            pieces.append((start, stop, listed))
            start = stop
        return pieces

    def numeric_join(self, index):
        window = sj.within(self.limits) if self.window == "time" else self.limits
        return sj.NumericJoin(
            window, *self.bounds, self.dtype, index, self_join=self.self_join, group=self.group
        )

    def part(self, start, stop):
        """Arguments of a push."""
        sides, keys, times = (array[start:stop] for array in self.stream)
        return None if self.self_join else sides, keys, times if self.window == "time" else None

    @cached_property
    def expected(self):
        """What the pushes return: pairs, or their number."""
        return oracle(*self.stream, self.limits, *self.bounds, self.self_join, self.pushes)


# --- The exact results ---


BLOCK = 64  # arrivals that are compared with their windows together


def oracle(sides, keys, times, limits, lower, upper, self_join, pushes):
    """Results of a join: for each push (start, stop, listed) an array of pairs, or their number.

    ``limits`` is the rows that are kept of each side, or a duration for which all are. The pushes follow one
    another. Compares every arrival with all that its window holds: O(arrivals * window).
    """
    lows, highs = _ends_of_bands(keys, lower, upper)
    side_of = np.zeros_like(sides) if self_join else sides
    arrivals = [np.flatnonzero(side_of == side) for side in (0, 1)]  # by position
    # How many of a side have arrived before each arrival.
    earlier = [np.searchsorted(arrivals[side], np.arange(len(keys))) for side in (0, 1)]
    listed = np.concatenate([np.full(stop - start, listed) for start, stop, listed in pushes])
    counts = np.zeros(len(keys), np.int64)
    found = [np.empty((3, 0), np.int64)]  # arrival, left position, right position
    for side in (0,) if self_join else (0, 1):
        met = side if self_join else 1 - side
        met_keys, met_lows, met_highs = (array[arrivals[met]] for array in (keys, lows, highs))
        last = earlier[met]
        if isinstance(limits, tuple):
            first = np.maximum(0, last - limits[met])
        else:
            first = np.searchsorted(times[arrivals[met]], times - limits)
        seen = first.astype(np.int32), last.astype(np.int32)
        for start in range(0, len(arrivals[side]), BLOCK):
            block = arrivals[side][start : start + BLOCK]
            held = slice(first[block].min(), last[block].max())
            positions = np.arange(held.start, held.stop, dtype=np.int32)
            key, low, high, begin, end = (array[block][:, None] for array in (keys, lows, highs, *seen))
            matching = (begin <= positions) & (positions < end)
            as_right = as_left = None  # the arrival is the right or the left one of the pair
            if self_join or side == 1:
                as_right = (met_lows[held] <= key) & (key <= met_highs[held])
            if self_join or side == 0:
                as_left = (low <= met_keys[held]) & (met_keys[held] <= high)
            matching &= as_right | as_left if self_join else as_right if side == 1 else as_left
            counts[block] = [np.count_nonzero(row) for row in matching]
            matching[~listed[block]] = False
            at, partner = np.divmod(np.flatnonzero(matching), max(len(positions), 1))
            partner_is_left = as_right[at, partner] if self_join else side == 1
            own = earlier[side][block[at]]
            left = np.where(partner_is_left, positions[partner], own)
            right = np.where(partner_is_left, own, positions[partner])
            found.append(np.stack([block[at], left, right]))
    pairs = np.concatenate(found, axis=1)
    pairs = pairs[:, np.argsort(pairs[0], kind="stable")]
    ends = np.searchsorted(pairs[0], [(start, stop) for start, stop, _ in pushes])
    return [
        pairs[1:, begin:end] if listed else counts[start:stop].sum()
        for (start, stop, listed), (begin, end) in zip(pushes, ends, strict=True)
    ]


def _ends_of_bands(keys, lower, upper):
    """For each key as a left one, the ends of the right keys that match; a band that is empty has none."""
    if keys.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return keys + keys.dtype.type(lower), keys + keys.dtype.type(upper)
    least, most = int(np.iinfo(keys.dtype).min), int(np.iinfo(keys.dtype).max)
    ends = []
    for key in keys.tolist():
        low, high = key + lower, key + upper
        outside = low > most or high < least
        ends.append((most, least) if outside else (max(low, least), min(high, most)))
    lows, highs = np.array(ends, keys.dtype).reshape(-1, 2).T
    return lows, highs


# --- Which of them are run ---


def covering():
    """Few workloads, with options, in which every two values of two parameters meet."""
    return [
        (
            Workload(
                keys,
                WINDOWS[(i + j) % 2],
                tuple(FORMS)[(i + j) % 3],
                JOINS[(i // 3 + 2 * j) % 3],
                dtype,
            ),
            OPTIONS[(i + j // 2) % 2],
        )
        for i, keys in enumerate(KEYS)
        for j, dtype in enumerate(TYPES)
    ]


def product():
    """All of them, on larger windows; the types of keys take turns."""
    combinations = itertools.product(KEYS, WINDOWS, FORMS, JOINS)
    return [
        (Workload(*combination, TYPES[(number + number // 18) % 4], 6000), options)
        for number, combination in enumerate(combinations)
        for options in OPTIONS
    ]


@lru_cache(maxsize=2)
def prepared(workload):
    """The same workload, which keeps its stream and its results as long as it is in use."""
    return replace(workload)
