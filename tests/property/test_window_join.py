"""WindowJoin: pairs do not depend on index, batches, form of the input or machine; symmetries hold."""

import dataclasses
import functools
import itertools
import random
from collections import Counter

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases import INDEXES
from hypothesis import assume, given
from hypothesis import strategies as st
from window_cases import (
    KINDS,
    ORDERS,
    SIDES,
    TIMES,
    Condition,
    Row,
    Spec,
    expected,
    id_pairs,
    parts,
    run,
    scripts,
)

import slidejoin as sj
from slidejoin import isa, reference

MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}


def flat(chunks):
    return [pair for chunk in chunks for pair in chunk]


@given(scripts())
def test_equals_the_reference_with_every_index(script):
    spec, rows = script
    wanted, wanted_counters = expected(spec, rows)
    made = parts(spec, rows)
    for index in INDEXES:
        for order in ORDERS:
            found, stats = run(spec, rows, made=made, index=index, order=order)
            assert reference.agrees(found, wanted, order), (index, order)
            assert stats == wanted_counters


@given(scripts(), st.data())
def test_any_split_into_batches(script, data):
    spec, rows = script
    spec = dataclasses.replace(spec, order="full")
    whole, stats = run(spec, rows)
    splits = data.draw(st.lists(st.integers(0, len(rows)), max_size=6))
    assert run(spec, rows, splits=splits) == (whole, stats)
    assert run(spec, rows, splits=range(1, len(rows)), checked=False) == (whole, stats)


@given(scripts(self_joins=False), st.data())
def test_one_sided_batches_say_the_same_as_arrivals(script, data):
    spec, rows = script
    spec = dataclasses.replace(spec, order="full")
    whole = run(spec, rows)
    splits = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    for known in (True, False):  # unknown: the first batch of each side tells
        assert run(spec, rows, splits=splits, one_sided=True, known=known) == whole


@given(scripts(max_size=150))
def test_any_instruction_set(script):
    spec, rows = script
    spec = dataclasses.replace(spec, order="full")
    made = parts(spec, rows)
    wanted = run(spec, rows, level="portable", index="nested-loop", made=made, checked=False)
    for level, index in itertools.product(isa.available(), INDEXES):
        assert run(spec, rows, level=level, index=index, made=made, checked=False) == wanted, (level, index)


def mirrored(spec):
    """The same join with its sides exchanged; exact where sums are."""
    window = spec.window
    if isinstance(window, reference.Rows):
        window = reference.Rows(window.right, window.left)
    elif isinstance(window, reference.Interval):
        window = dataclasses.replace(window, before=window.after, after=window.before)

    def negated(bound):
        return None if bound is None else -bound

    on = tuple(
        Condition(
            MIRRORED.get(c.op, c.op),
            c.kind,
            tuple((negated(upper), negated(lower)) for lower, upper in c.ranges),
        )
        for c in spec.on
    )
    return dataclasses.replace(spec, on=on, window=window)


PLAIN = tuple(name for name, kind in KINDS.items() if not kind.mixed)
EXACT = tuple(name for name in PLAIN if not KINDS[name].is_float)


@given(scripts(kinds=EXACT, self_joins=False))
def test_sides_swapped_with_the_mirrored_predicate(script):
    spec, rows = script
    assume(not spec.timed or not TIMES[spec.time].mixed)
    spec = dataclasses.replace(spec, order="full")
    found, stats = run(spec, rows)
    swapped, swapped_stats = run(mirrored(spec), [Row(1 - side, key, ts) for side, key, ts in rows])
    assert [(right, left) for left, right in swapped] == found
    assert swapped_stats["watermark"] == stats["watermark"]
    for name in ("rows", "late", "null", "stored"):
        assert swapped_stats[f"{name}_left"] == stats[f"{name}_right"]
        assert swapped_stats[f"{name}_right"] == stats[f"{name}_left"]


@given(scripts(kinds=("int8", "us", "duration", "decimal", "date")), st.integers(-(10**6), 10**6), st.data())
def test_keys_and_times_shifted(script, shift, data):
    spec, rows = script
    spec = dataclasses.replace(
        spec,
        order="full",
        on=tuple(dataclasses.replace(c, kind=c.kind.replace("int8", "int64")) for c in spec.on),
    )
    later = data.draw(st.integers(0, 10**4)) * 1000 if spec.timed else 0
    assume(not spec.timed or spec.time != "int16, uint32")
    moved = [
        Row(
            row.side,
            tuple(None if part is None else part + shift for part in row.key),
            None if row.ts is None else row.ts + later,
        )
        for row in rows
    ]
    found, stats = run(spec, rows)
    shifted, shifted_stats = run(spec, moved)
    assert shifted == found
    if stats["watermark"] is not None:
        stats["watermark"] += later
    assert shifted_stats == stats


@given(scripts(windows_of=("interval",)), st.randoms(use_true_random=False))
def test_arrivals_permuted_within_the_lateness(script, shuffle):
    """No row is late in either order, so the same pairs come out, by whichever row arrives last."""
    spec, rows = script
    assume(not spec.self_join)  # there the earlier row is the left one
    times = [row.ts for row in rows if row.ts is not None]
    ample = max(times, default=0) - min(times, default=0) + 1
    spec = dataclasses.replace(spec, window=dataclasses.replace(spec.window, lateness=ample * 1000))
    order = list(range(len(rows)))
    shuffle.shuffle(order)
    found, stats = run(spec, rows)
    permuted, permuted_stats = run(spec, [rows[i] for i in order])
    assert Counter((order[left], order[right]) for left, right in permuted) == Counter(found)
    assert permuted_stats == stats
    assert stats["late_left"] == stats["late_right"] == 0


@given(scripts(windows_of=("interval",)), st.integers(0, 40), st.data())
def test_forgetting_changes_no_pairs(script, lateness, data):
    """A join that forgets equals one that never does, on the rows that were not late."""
    spec, rows = script
    unit = max(TIMES[spec.time].per_value(0), TIMES[spec.time].per_value(1))
    forgets = dataclasses.replace(
        spec, order="full", window=dataclasses.replace(spec.window, lateness=lateness * unit, late="return")
    )
    join = forgets.join(known=True)
    splits = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    found = []
    for start, stop in itertools.pairwise([0, *splits, len(rows)]):
        ids = list(range(start, stop))
        if spec.self_join:
            result = join.push(forgets.table(0, rows[start:stop], ids))
        else:
            result = join.push(arrivals=forgets.arrivals(rows[start:stop], ids))
        found += id_pairs(forgets, result)
    late = set()
    for side in (0,) if spec.self_join else (0, 1):
        late.update(join.take_late(SIDES[side])[forgets.names(side)[-2]].to_pylist())
    keeps = dataclasses.replace(forgets, window=dataclasses.replace(forgets.window, lateness=None))
    kept_rows = [number for number in range(len(rows)) if number not in late]
    kept, stats = run(keeps, [rows[number] for number in kept_rows])
    assert [(kept_rows[left], kept_rows[right]) for left, right in kept] == found
    nulls = stats["null_left"] + stats["null_right"]
    assert stats["stored_left"] + stats["stored_right"] == len(kept_rows) - nulls  # nothing was forgotten


# --- Forms of input ---


def forms(table):
    """One batch in every form that says the same."""
    yield "table", table
    yield "chunks", pa.concat_tables([table.slice(i, 1) for i in range(table.num_rows)] or [table])
    padded = pa.concat_tables([table.slice(0, 1), table, table.slice(0, 1)]).combine_chunks()
    yield "slice", padded.slice(min(1, table.num_rows), table.num_rows)
    if table.num_rows:
        yield "batch", table.combine_chunks().to_batches()[0]
    yield "reader", pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    yield "columns turned", table.select(table.column_names[::-1])
    encoded = [
        column.dictionary_encode()
        if pa.types.is_string(column.type) or pa.types.is_integer(column.type)
        else column
        for column in table.columns
    ]
    yield "dictionaries", pa.table(encoded, table.column_names)
    yield "polars", pl.from_arrow(table)
    yield "pandas of Arrow", table.to_pandas(types_mapper=pd.ArrowDtype)


FORM_KINDS = ("int64", "float64", "us", "string", "dictionary", "decimal", "date", "bool", "duration")


@given(scripts(kinds=FORM_KINDS, max_size=12))
def test_every_form_of_input_gives_the_same(script):
    """All left rows in one batch, then all right ones, in every form."""
    spec, rows = script
    spec = dataclasses.replace(spec, order="full")
    rows = sorted(rows, key=lambda row: row.side)
    if isinstance(spec.window, reference.Within):  # its times must not decrease
        rows = [row._replace(ts=row.ts and 0) for row in rows]
    wanted = flat(expected(spec, rows)[0])
    lefts = sum(row.side == 0 for row in rows)
    batches = {0: spec.table(0, rows[:lefts], list(range(lefts)))}
    if not spec.self_join:
        batches[1] = spec.table(1, rows[lefts:], list(range(lefts, len(rows))))
    shapes = {side: dict(forms(table)) for side, table in batches.items()}
    for name in shapes[0]:
        join = spec.join(known=True)
        found = []
        for side, shape in shapes.items():
            data = shape.get(name, batches[side])
            found += id_pairs(spec, join.push(data) if spec.self_join else join.push(**{SIDES[side]: data}))
        assert found == wanted, name


def test_pandas_frames_of_numpy_columns():
    """Plain pandas has no nulls in integers: frames without them, and floats where NaN is missing."""
    choose = random.Random(1)
    rows = [Row(choose.randrange(2), (choose.randrange(9), choose.choice([0.5, 1.5])), n) for n in range(300)]
    on = (Condition("band", "int64", ((-1, 1),)), Condition("equal", "float64"))
    spec = Spec(on, reference.Interval(20, 20, 5), "us")
    join = spec.join()
    found = []
    for start in range(0, 300, 60):
        part = rows[start : start + 60]
        frame = spec.arrivals(part, list(range(start, start + 60))).to_pandas()
        assert isinstance(frame["ts"].dtype, type(pd.Series([], dtype="datetime64[us]").dtype))
        found += id_pairs(spec, join.push(arrivals=frame))
    assert found == flat(expected(spec, rows)[0])
    assert len(found) > 100


# --- Longer streams, against another index and against groups of one ---


@pytest.mark.parametrize(
    "window",
    [
        reference.Rows(300, 200),
        reference.Within(250),
        reference.Within(250, "self"),
        reference.Interval(60, 90, 40, "return"),
        reference.Interval(-10, 90, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("self_join", [False, True])
def test_long_streams(window, self_join):
    """Enough rows for trees and row stores to turn over; one big batch equals many of odd sizes."""
    if self_join and isinstance(window, reference.Rows):
        window = reference.Rows(300, 300)
    choose = random.Random(str(window))
    rows, now = [], 0
    for _ in range(900):
        now += choose.choice((0, 1, 1, 2))
        ts = now - choose.randrange(30) if isinstance(window, reference.Interval) else now
        side = 0 if self_join else int(choose.random() < 0.4)
        part = choose.choice((None, *range(12))), choose.choice(("a", "b", "c"))
        rows.append(Row(side, part, None if choose.random() < 0.01 else ts))
    on = (Condition("band", "int32", ((-1, 1),)), Condition("not_equal", "string"))
    spec = Spec(on, window, "us", self_join)
    wanted, counters = expected(spec, rows)
    sizes = {"one": (), "odd": range(37, 900, 37), "big": (1, 800, 801)}
    batches = {name: parts(spec, rows, splits=splits) for name, splits in sizes.items()}
    for index, order, (name, made) in itertools.product(INDEXES, ORDERS, batches.items()):
        found, stats = run(spec, rows, made=made, index=index, order=order, checked=name == "odd")
        assert reference.agrees(found, wanted, order), (index, order, name)
        assert stats == counters
    assert counters["matches"] > 300


# --- Rows that stay long among rows that leave: positions are given anew ---


@functools.cache
def as_columns(nulls, n=24_000, far=400):
    """Arrivals of both sides; one row in `far` lives very long, some keys and times are null."""
    rng = np.random.default_rng(7)
    times = np.arange(n) // 2 + rng.integers(0, 6, n)
    times[rng.integers(0, n, n // far)] += 30_000
    missing = rng.random(n) < nulls
    return pa.table(
        {
            "side": rng.integers(0, 2, n).astype(np.uint8),
            "k": pa.array(rng.integers(0, 200, n), mask=missing),
            "ts": pa.array(times, mask=rng.random(n) < nulls / 4),
            "n": np.arange(n),
        }
    )


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("nulls", [0.0, 0.7])
@pytest.mark.parametrize("advances", ["by hand", "never"])
def test_long_lives_and_many_nulls(index, self_join, nulls, advances):
    """Most rows leave soon, a few stay: against an SQL join of the same rows."""
    rows = as_columns(nulls)
    n = rows.num_rows
    join = sj.WindowJoin(
        sj.equal("k") & sj.band("n", within=2**40),
        sj.interval(20, 30, time="ts"),
        index=index,
        order="full",
        self_join=self_join,
    )
    found = []
    for start in range(0, n, 1500):
        part = rows.slice(start, 1500)
        result = join.push(part.drop_columns("side")) if self_join else join.push(arrivals=part)
        found += zip(result["n"].to_pylist(), result["n_right"].to_pylist(), strict=True)
        if advances == "by hand":
            join.advance(start // 2 - 200)
        join.check()
    assert join.stats["late_left"] == join.stats["late_right"] == 0
    assert sorted(found) == by_sql(nulls, self_join)
    assert join.stats["matches"] == len(found) > 100
    if advances == "by hand":  # few of all rows are left, and they take little room
        assert 20 < join.stats["stored_left"] < n / 8


@functools.cache
def by_sql(nulls, self_join):
    """The pairs that a window of event time has when no row is late."""
    with duckdb.connect() as database:
        database.register("rows", as_columns(nulls))
        gap = "r.ts - l.ts BETWEEN -20 AND 30"
        if self_join:  # the earlier row is left where it holds both ways
            other = "l.ts - r.ts BETWEEN -20 AND 30"
            on = f"l.k = r.k AND l.n <> r.n AND {gap} AND (l.n < r.n OR NOT ({other}))"
        else:
            on = f"l.k = r.k AND l.side = 0 AND r.side = 1 AND {gap}"
        query = f"SELECT l.n, r.n FROM rows l JOIN rows r ON {on} ORDER BY ALL"
        return database.execute(query).fetchall()


def test_positions_given_anew_before_the_other_side_is_known():
    """The left side's rows are numbered anew while the right side's types are a guess, and wrong."""
    join = sj.WindowJoin(sj.equal("k"), sj.interval(20, 20, time="ts"), order="full")
    n = 12_000
    times = np.arange(n)
    times[::100] += 10**6
    left = pa.table({"k": pa.array(times, pa.int32()), "ts": times, "n": np.arange(n)})
    for start in range(0, n, 1000):
        join.push(left=left.slice(start, 1000))
        join.advance(start + 900)
        join.check()
    assert join.stats["stored_left"] == np.sum(times + 20 >= 11_900)  # a row at 11_900 may come
    right = pa.table({"k": pa.array(times, pa.int64()), "ts": times, "m": np.arange(n)})
    result = join.push(right=right)
    assert result["n"].to_pylist() == np.flatnonzero(times >= 11_900).tolist()
    assert result["n"].equals(result["m"])
    join.check()
