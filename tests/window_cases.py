"""Joins of rows to test with: how hypothesis draws them, how WindowJoin and the reference run them.

A row is (side, key parts, ts) in *model* values: whole numbers of the finer side's unit, floats, texts. Kinds
know how a model value looks in Arrow on either side, so one script runs through both. A result is a pair of
numbers of rows, (left, right); None is a missing partner, or the side that a semi or anti join does not have.
"""

import itertools
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from cases import INDEXES, keys_of
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin import isa, reference
from slidejoin.join_type import JOIN_TYPES
from slidejoin.keys.types import tick

SIDES = ("left", "right")
ORDERS = ("none", "arrival", "full")
HOWS = tuple(JOIN_TYPES)
ONLY = {"left_semi": 0, "left_anti": 0, "right_semi": 1, "right_anti": 1}  # the side that the output has
ORDERED = ("less", "less_equal", "greater", "greater_equal")
COMPARISONS = ("equal", "not_equal", *ORDERED)


class Row(NamedTuple):
    """An arrival in model values; `ts` is None for a null, and in windows of rows."""

    side: int
    key: tuple[Any, ...]
    ts: int | None


# --- Kinds of columns ---


@dataclass(frozen=True)
class Kind:
    """The type of a column on either side, and what its values are in the model."""

    left: pa.DataType
    right: pa.DataType
    band: str = "int"  # how the reference adds; "" where there are no bands

    @property
    def mixed(self):
        return self.left != self.right

    @property
    def ops(self):
        if self.is_text:
            return ("equal", "not_equal")
        return (*COMPARISONS, "band", "bands") if self.band else COMPARISONS

    @property
    def is_text(self):
        plain = self.left.value_type if pa.types.is_dictionary(self.left) else self.left
        return plain in (pa.string(), pa.large_string(), pa.string_view(), pa.binary())

    @property
    def is_float(self):
        return self.band.startswith("float")

    @property
    def unit(self):
        """What 1 of the model stands for: the finer side's tick."""
        if self.is_text or self.is_float or pa.types.is_boolean(self.left):
            return Fraction(1)
        return min(tick(self.left), tick(self.right))

    def per_value(self, side):
        """How many of the model one stored number of a side is."""
        type_ = (self.left, self.right)[side]
        return int(tick(type_) / self.unit)

    def array(self, side, values, type_=None):
        """Model values as an Arrow array of a side."""
        type_ = type_ or (self.left, self.right)[side]
        if self.is_text or self.is_float or pa.types.is_boolean(type_):
            return pa.array(values, type_)
        per = int(tick(type_) / self.unit)
        stored = [None if value is None else value // per for value in values]
        if pa.types.is_decimal(type_):
            return pa.array([None if v is None else Decimal(v).scaleb(-type_.scale) for v in stored], type_)
        if pa.types.is_integer(type_):
            return pa.array(stored, type_)
        if pa.types.is_date64(type_):
            stored = [None if v is None else v * 86_400_000 for v in stored]
        return pa.array(stored, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)

    def spelled(self, bound):
        """A bound of the model as a user writes it; None for an open end."""
        if bound is None:
            return None
        if self.is_float or (self.unit == 1 and pa.types.is_integer(self.left)):
            return bound
        if pa.types.is_decimal(self.left):
            return Fraction(bound) * self.unit
        exact = Fraction(bound) * self.unit  # nanoseconds
        return f"{exact.numerator}/{exact.denominator}ns"


US, MS = pa.timestamp("us"), pa.timestamp("ms")
BERLIN, TOKYO = pa.timestamp("s", "Europe/Berlin"), pa.timestamp("ms", "Asia/Tokyo")
TEXT = pa.dictionary(pa.int8(), pa.string())

KINDS = {
    **{name: Kind(*[pa.from_numpy_dtype(np.dtype(name))] * 2) for name in ("int8", "int32", "int64")},
    **{name: Kind(*[pa.from_numpy_dtype(np.dtype(name))] * 2) for name in ("uint8", "uint16", "uint64")},
    "float32": Kind(pa.float32(), pa.float32(), "float32"),
    "float64": Kind(pa.float64(), pa.float64(), "float64"),
    "bool": Kind(pa.bool_(), pa.bool_(), ""),
    "us": Kind(US, US),
    "duration": Kind(pa.duration("ms"), pa.duration("ms")),
    "date": Kind(pa.date32(), pa.date32()),
    "decimal": Kind(pa.decimal128(12, 2), pa.decimal128(12, 2)),
    "string": Kind(pa.string(), pa.string(), ""),
    "binary": Kind(pa.binary(), pa.binary(), ""),
    "dictionary": Kind(TEXT, TEXT, ""),
    # sides that meet in a common type
    "int8, int32": Kind(pa.int8(), pa.int32()),
    "uint32, int16": Kind(pa.uint32(), pa.int16()),
    "float64, float32": Kind(pa.float64(), pa.float32(), "float64"),
    "ms, us": Kind(MS, US),
    "zones": Kind(BERLIN, TOKYO),
    "decimals": Kind(pa.decimal64(10, 4), pa.decimal128(12, 2)),
    "texts": Kind(pa.large_string(), pa.dictionary(pa.int32(), pa.string()), ""),
}

TIMES = {
    "int64": Kind(pa.int64(), pa.int64()),
    "int16, uint32": Kind(pa.int16(), pa.uint32()),
    "us": Kind(US, US),
    "ms, us": Kind(MS, US),
    "zones": Kind(BERLIN, TOKYO),
}


# Texts of one hash (core/hash.hpp), by pairs.
ONE_HASH = (("xPRI0bPh6PL", "TX8zFHFJ4gF"), ("opbftTM_KqA", "THv6-_DmmmH"))


def values_of(kind, side):
    """Model values of a kind that collide, with nulls, NaN and the ends of the type."""
    type_ = (kind.left, kind.right)[side]
    if pa.types.is_boolean(type_):
        values = st.booleans()
    elif kind.is_text:
        texts = ["", "a", "A", "ab", "ä", "a\x00", "longer than a view", *ONE_HASH[0]]
        values = st.sampled_from([t.encode() for t in texts] if type_ == pa.binary() else texts)
    elif kind.is_float:
        name = "float32" if type_ == pa.float32() else "float64"
        exact = reference.to_float32 if name == "float32" else float
        values = st.one_of(st.sampled_from([0.0, 0.1, 0.3, 0.4, 1.0]), keys_of(name)).map(exact)
    else:
        per = kind.per_value(side)
        if pa.types.is_integer(type_):
            stored = st.one_of(st.integers(0, 9), keys_of(str(np.dtype(type_.to_pandas_dtype()))))
        else:
            stored = st.one_of(st.integers(-4, 4), st.integers(-(10**6), 10**6))
        values = stored.map(lambda value: value * per)
        if per == 1 and kind.mixed:  # meet the coarser side more often
            step = kind.per_value(1 - side)
            values = st.one_of(
                values, st.integers(0 if _is_unsigned(type_) else -4, 4).map(lambda v: v * step)
            )
    return st.one_of(values, values, values, values, values, st.none())


def _is_unsigned(type_):
    return pa.types.is_unsigned_integer(type_)


def bounds_of(kind):
    """Ordered pairs of bounds of a kind, in the model's unit."""
    if kind.is_float:
        width = 32 if kind.band == "float32" else 64
        bound = st.one_of(
            st.sampled_from([0.0, 0.1, 0.3, -0.3, 1.0, 1e10]),
            st.floats(-4, 4, width=width),
            st.floats(width=width, allow_nan=False, allow_infinity=False),
        )
        if width == 32:  # hypothesis goes as far as what rounds to infinity
            bound = bound.filter(lambda value: math.isfinite(reference.to_float32(value)))
        return st.tuples(bound, bound).map(sorted).map(tuple)
    step = max(kind.per_value(0), kind.per_value(1))
    small = st.integers(-4, 4).map(lambda value: value * step)
    bound = st.one_of(small, small, st.fractions(-3, 3, max_denominator=6), st.integers(-(2**66), 2**66))
    return st.tuples(bound, bound).map(sorted).map(tuple)


# --- Conditions ---


@dataclass(frozen=True)
class Condition:
    """One conjunct on columns of a kind.

    An end of a range may be None, which is open. A comparison with an offset has one range, a half line.
    """

    op: str
    kind: str
    ranges: tuple[tuple[Any, Any], ...] = ()

    @property
    def offset(self):
        """What a comparison adds to the left key."""
        return next((bound for pair in self.ranges for bound in pair if bound is not None), 0)

    @property
    def columns(self):
        return KINDS[self.kind]

    def predicate(self, left, right):
        if self.op not in ("band", "bands"):
            given = {"offset": self.columns.spelled(self.offset)} if self.ranges else {}
            return getattr(sj, self.op)(left, right, **given)
        ranges = [tuple(self.columns.spelled(bound) for bound in pair) for pair in self.ranges]
        if self.op == "bands":
            return sj.bands(left, right, ranges=ranges)
        return sj.band(left, right, lower=ranges[0][0], upper=ranges[0][1])

    def model(self):
        if self.op not in ("band", "bands"):
            return getattr(reference, self.op)(*([self.offset, self.columns.band] if self.ranges else []))
        if self.op == "band":
            return reference.band(*self.ranges[0], self.columns.band)
        return reference.bands(self.ranges, self.columns.band)


@st.composite
def conditions(draw, kinds=tuple(KINDS)):
    kind = draw(st.sampled_from(kinds))
    op = draw(st.sampled_from(KINDS[kind].ops))
    counts = {"band": (1, 1), "bands": (1, 3)}.get(op)
    has_offset = op in ORDERED and KINDS[kind].band and draw(st.booleans())
    if has_offset:
        counts = (1, 1)
    ranges = draw(st.lists(bounds_of(KINDS[kind]), min_size=counts[0], max_size=counts[1])) if counts else []
    if has_offset or (op == "band" and draw(st.integers(0, 3)) == 0):
        upwards = op.startswith("less") if has_offset else draw(st.booleans())
        low, high = ranges[0]
        ranges = [(low, None) if upwards else (None, high)]
    return Condition(op, kind, tuple(ranges))


# --- Joins ---


@dataclass(frozen=True)
class Spec:
    """A join: conditions, a window of the model, and what only WindowJoin has."""

    on: tuple[Condition, ...]
    window: reference.Window
    time: str = "int64"
    self_join: bool = False
    how: str = "inner"
    order: str = "full"
    index: str = "auto"
    one_name: bool = True  # whether both sides call their columns alike
    idle_after: int | None = None  # nanoseconds of the clock

    @property
    def timed(self):
        return not isinstance(self.window, reference.Rows)

    @property
    def kinds(self):
        return [*(condition.columns for condition in self.on), *([TIMES[self.time]] if self.timed else [])]

    def names(self, side):
        """Columns of a side: its keys, its time if the window has one, its number and a payload."""
        prefix = "" if self.one_name else "lr"[side]
        keys = [f"{prefix}k{i}" for i in range(len(self.on))]
        return [*keys, *([f"{prefix}ts"] if self.timed else []), f"{prefix}id", f"{prefix}text"]

    def output_names(self):
        """Columns of a result once both sides are known."""
        left, right = self.names(0), self.names(1)
        if self.how in ONLY:
            return self.names(ONLY[self.how])
        return [*left, *(f"{name}_right" for name in right)] if self.one_name else [*left, *right]

    def schema(self, side):
        types = [(kind.left, kind.right)[side] for kind in self.kinds]
        return pa.schema(list(zip(self.names(side), [*types, pa.int64(), pa.string()], strict=True)))

    def sj_window(self):
        kind = TIMES[self.time]
        time = (self.names(0)[len(self.on)], self.names(1)[len(self.on)]) if self.timed else None
        match self.window:
            case reference.Rows(left, right):
                return sj.rows(left=left, right=right)
            case reference.Within(duration, purge):
                return sj.within(kind.spelled(duration), time=time, purge=purge)
            case reference.Interval(before, after, lateness, late):
                return sj.interval(
                    kind.spelled(before),
                    kind.spelled(after),
                    time=time,
                    lateness=None if lateness is None else kind.spelled(lateness),
                    late=late,
                    idle_after=None if self.idle_after is None else f"{self.idle_after}ns",
                )

    def join(self, *, known=False, **options):
        left, right = self.names(0), self.names(1)
        parts = [c.predicate(left[i], right[i]) for i, c in enumerate(self.on)]
        on = parts[0]
        for part in parts[1:]:
            on = on & part
        schemas = (self.schema(0), self.schema(1)) if known else None
        given = {"how": self.how, "order": self.order, "index": self.index, **options}
        return sj.WindowJoin(on, self.sj_window(), self_join=self.self_join, schemas=schemas, **given)

    def model(self):
        matches = reference.all_of(*(condition.model() for condition in self.on))
        return reference.ReferenceJoin(matches, self.window, self.how, self.self_join)

    def table(self, side, rows, ids):
        """Rows of one side as a table; `ids` number them."""
        parts = [[row.key[i] for row in rows] for i in range(len(self.on))]
        parts += [[row.ts for row in rows]] if self.timed else []
        arrays = [kind.array(side, part) for kind, part in zip(self.kinds, parts, strict=True)]
        arrays += [pa.array(ids, pa.int64()), pa.array([text(side, i) for i in ids], pa.string())]
        return pa.Table.from_arrays(arrays, schema=self.schema(side))

    def arrivals(self, rows, ids):
        """Rows of both sides as one table with a column that tells the side."""
        sides = pa.array([row.side for row in rows], pa.uint8())
        if self.one_name:  # and so of one type
            table = self.table(0, rows, ids)
            texts = pa.array([text(row.side, i) for row, i in zip(rows, ids, strict=True)], pa.string())
            return table.set_column(table.num_columns - 1, "text", texts).append_column("side", sides)
        columns = {"side": sides}
        for side in (0, 1):
            blank = Row(side, (None,) * len(self.on), None)
            table = self.table(side, [row if row.side == side else blank for row in rows], ids)
            columns |= dict(zip(table.column_names, table.columns, strict=True))
        return pa.table(columns)

    def point(self, number):
        """A point in time of the model as a user writes it."""
        kind = TIMES[self.time]
        if pa.types.is_integer(kind.left):
            return number
        return pa.scalar(int(number * kind.unit) // 1000, pa.timestamp("us", kind.left.tz))

    def number(self, point):
        """A watermark in the model's unit."""
        if point is None or isinstance(point, int):
            return point
        start = datetime(1970, 1, 1, tzinfo=UTC if point.tzinfo else None)
        nanoseconds = (point - start) // timedelta(microseconds=1) * 1000
        return int(nanoseconds // TIMES[self.time].unit)


def text(side, number):
    return f"{'LR'[side]}{number}"


def id_pairs(spec, table):
    """The results as pairs of numbers of rows, after a look at the columns beside them.

    Before both sides are known there are no columns, or at the end those of the known side alone.
    """
    if not table.num_columns:
        assert table.num_rows == 0
        return []
    names = table.column_names
    if spec.how in ONLY:
        assert names == spec.output_names()
        only = ONLY[spec.how]
        return [(None, number) if only else (number, None) for number in ids_of(only, table)]
    if names == spec.output_names():
        width = len(spec.names(0))
        left = ids_of(0, table.select(names[:width]))
        right = ids_of(0 if spec.self_join else 1, table.select(names[width:]))
        return list(zip(left, right, strict=True))
    assert names in (spec.names(0), spec.names(1))
    if all(owner == "L" for owner, *_ in table[names[-1]].to_pylist()):
        return [(number, None) for number in ids_of(0, table)]
    return [(None, number) for number in ids_of(1, table)]


def ids_of(side, columns):
    """The numbers of the rows in the columns of one side; None for a row that is null throughout."""
    ids, texts = (column.to_pylist() for column in columns.columns[-2:])
    assert texts == [None if number is None else text(side, number) for number in ids]
    missing = columns.filter(columns.columns[-2].is_null())
    assert all(column.null_count == missing.num_rows for column in missing.columns)
    return ids


COUNTERS = (
    "rows_left", "rows_right", "matches", "late_left", "late_right",
    "null_left", "null_right", "stored_left", "stored_right",
)  # fmt: skip


def counters(spec, stats):
    """The counters that WindowJoin and the reference share, the watermark in the model's unit."""
    return {**{name: stats[name] for name in COUNTERS}, "watermark": spec.number(stats["watermark"])}


class Model:
    """The reference beside a join: it knows which numbers of rows its positions stand for."""

    def __init__(self, spec):
        self.spec = spec
        self.join = spec.model()
        self.ids = ([], [])
        self.late = ([], [])

    def push(self, rows, ids, store=True):
        """The results of each row, as numbers of rows."""
        found = []
        for row, number in zip(rows, ids, strict=True):
            side = 0 if self.spec.self_join else row.side
            before = self._late(side)
            results = self.join.push(side, row.key, row.ts, store)
            if self._late(side) > before:
                self.late[side].append(number)
            else:
                self.ids[side].append(number)
            found.append(self._numbered(results))
        return found

    def advance(self, to, side=None):
        return self._numbered(self.join.advance(to, side))

    def idle(self, side):
        return self._numbered(self.join.idle(side))

    def finish(self):
        return self._numbered(self.join.finish())

    def _numbered(self, results):
        ids = self.ids[0], self.ids[0 if self.spec.self_join else 1]
        return [
            tuple(None if at is None else ids[side][at] for side, at in enumerate(pair)) for pair in results
        ]

    def _late(self, side):
        return self.join._late_count[side]

    @property
    def counters(self):
        stats = self.join.stats
        return {**{name: stats[name] for name in COUNTERS}, "watermark": stats["watermark"]}


def windows(*, self_join=False, kinds=("rows", "within", "interval"), timed_unit=1):
    """Windows of the model; durations are multiples of a unit, so that both sides can say them."""
    sizes = st.sampled_from([1, 2, 3, 7, 20, 1000])
    steps = st.sampled_from([1, 2, 3, 8, 30]).map(lambda value: value * timed_unit)
    ends = st.sampled_from([-3, -1, 0, 1, 2, 5, 9]).map(lambda value: value * timed_unit)
    rows = sizes.map(lambda n: reference.Rows(n, n)) if self_join else st.builds(reference.Rows, sizes, sizes)
    within = st.builds(reference.Within, steps, st.sampled_from(["cross", "self"]))
    interval = st.builds(
        lambda ends, lateness, late: reference.Interval(-ends[0], ends[1], lateness, late),
        st.tuples(ends, ends).map(sorted),
        st.sampled_from([None, 0, 1, 3, 10, 40]).map(lambda n: None if n is None else n * timed_unit),
        st.sampled_from(["drop", "return"]),
    )
    every = {"rows": rows, "within": within, "interval": interval}
    return st.one_of(*(every[kind] for kind in kinds))


@st.composite
def specs(
    draw,
    *,
    kinds=tuple(KINDS),
    windows_of=("rows", "within", "interval"),
    self_joins=True,
    hows=("inner",),
    most=3,
):
    """Joins of the given types; a self-join is always an inner one."""
    self_join = self_joins and draw(st.booleans())
    allowed = [name for name in kinds if not (self_join and KINDS[name].mixed)]
    times = [name for name in TIMES if not (self_join and TIMES[name].mixed)]
    on = draw(
        st.lists(conditions(tuple(allowed)), min_size=1, max_size=draw(st.sampled_from([1, 1, 2, most])))
    )
    time = draw(st.sampled_from(times))
    unit = max(TIMES[time].per_value(0), TIMES[time].per_value(1))
    window = draw(windows(self_join=self_join, kinds=windows_of, timed_unit=unit))
    mixed = any(condition.columns.mixed for condition in on) or TIMES[time].mixed
    return Spec(
        on=tuple(on),
        window=window,
        time=time,
        self_join=self_join,
        how="inner" if self_join else draw(st.sampled_from(hows)),
        order=draw(st.sampled_from(ORDERS)),
        index=draw(st.sampled_from(("auto", *INDEXES))),
        one_name=self_join or (not mixed and draw(st.booleans())),
    )


def key_rows(spec, *, min_size=0, max_size=40):
    """Lists of (side, key parts, step of time) for a spec."""
    parts = [
        st.tuples(*(values_of(condition.columns, side) for condition in spec.on)).map(
            lambda key, side=side: (side, key)
        )
        for side in ((0,) if spec.self_join else (0, 1))
    ]
    steps = st.sampled_from([0, 0, 1, 2, 9])
    back = st.sampled_from([0, 0, 0, 1, 3, 12])
    row = st.tuples(st.one_of(*parts), steps, back, st.integers(0, 19))
    return st.lists(row, min_size=min_size, max_size=max_size)


class Clock:
    """The time of arrivals: rising, with steps back where the window allows them."""

    def __init__(self, spec, start=0):
        self.spec = spec
        self.now = start
        kind = TIMES[spec.time]
        self.unit = max(kind.per_value(0), kind.per_value(1))

    def rows(self, drawn):
        made = []
        for (side, key), step, back, chance in drawn:
            if not self.spec.timed:
                made.append(Row(side, key, None))
                continue
            self.now += step * self.unit
            ts = self.now
            if isinstance(self.spec.window, reference.Interval):
                ts = max(ts - back * self.unit, 0)
            made.append(Row(side, key, None if chance == 0 else ts))
        return made


@st.composite
def scripts(draw, *, min_size=0, max_size=60, start=0, **options):
    """A spec and its whole input."""
    spec = draw(specs(**options))
    rows = draw(key_rows(spec, min_size=min_size, max_size=max_size))
    return spec, Clock(spec, start).rows(rows)


def run(
    spec,
    rows,
    *,
    splits=(),
    level=None,
    known=True,
    one_sided=False,
    probes=(),
    checked=True,
    made=None,
    **options,
):
    """Results (numbers of rows) of a whole run and its end, and the counters before the end.

    Rows are pushed in parts that end at the given places; those whose numbers are in `probes` only probe.
    `made` are the batches of these parts where several runs share them.
    """
    with isa.use(level or isa.current()):
        join = spec.join(known=known, **options)
        found = []
        if made is None:
            made = parts(spec, rows, splits=splits, one_sided=one_sided, probes=probes)
        for part in made:
            for batch, given in part:
                found += id_pairs(spec, join.push(*batch, **given))
            if checked:
                join.check()
        stats = counters(spec, join.stats)
        found += id_pairs(spec, join.finish())
    return found, stats


def parts(spec, rows, *, splits=(), one_sided=False, probes=()):
    """The batches of each part of a run; neither join type nor order nor index changes them."""
    edges = [0, *sorted(splits), len(rows)]
    return [
        batches(spec, rows[start:stop], range(start, stop), one_sided=one_sided, probes=probes)
        for start, stop in itertools.pairwise(edges)
    ]


def push(spec, join, rows, ids, *, probes=()):
    """Push rows in the order of their arrival: their results."""
    found = []
    for batch, given in batches(spec, rows, ids, probes=probes):
        found += id_pairs(spec, join.push(*batch, **given))
    return found


def batches(spec, rows, ids, *, one_sided=False, probes=()):
    """Arguments of pushes of rows as they arrive, as few as one side and one `store` allow."""

    def batch_of(item):
        row, number = item
        return row.side if one_sided else None, number not in probes

    numbered = list(zip(rows, ids, strict=True))
    groups = [(key, list(group)) for key, group in itertools.groupby(numbered, key=batch_of)]
    if not groups and not one_sided:
        groups = [((None, True), [])]  # an empty batch
    made = []
    for (side, store), group in groups:
        batch = [row for row, _ in group], [number for _, number in group]
        options = {} if store else {"store": False}
        if spec.self_join:
            made.append(([spec.table(0, *batch)], options))
        elif side is None:
            made.append(([], {"arrivals": spec.arrivals(*batch), **options}))
        else:
            made.append(([], {SIDES[side]: spec.table(side, *batch), **options}))
    return made


def expected(spec, rows, *, probes=()):
    """The reference's results of each row and of the end, and its counters before the end."""
    model = Model(spec)
    chunks = []
    for number, row in enumerate(rows):
        chunks += model.push([row], [number], store=number not in probes)
    stats = model.counters
    return [*chunks, model.finish()], stats
