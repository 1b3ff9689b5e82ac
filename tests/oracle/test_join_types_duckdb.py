"""DuckDB's outer, semi and anti joins say which rows come out, of many and on real data.

Nulls match nothing in SQL either, so a NaN becomes a null and every condition goes into ON as it is. When a
row comes out SQL cannot say; the reference can, and on small input the two arbiters must agree first.
SLIDEJOIN_TESTS=long has more rows.
"""

import csv
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from cases import INDEXES
from oracle.test_window_join_duckdb import (
    ALL,
    BANDED,
    INPUTS,
    LONG,
    MANY,
    by_duckdb,
    narrow,
    ordered,
    sql_of,
    stream,
    window_sqls,
)
from window_cases import HOWS, KINDS, ONLY, TIMES, Condition, Row, Spec, expected, parts, run

from slidejoin.reference import Interval, Rows, Within

DATA = Path(__file__).parents[2] / "../shared/data"
JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "left_semi": "SEMI JOIN",
    "left_anti": "ANTI JOIN",
    "right_semi": "SEMI JOIN",  # with the sides swapped
    "right_anti": "ANTI JOIN",
}
NOBODY = -1


@pytest.fixture(scope="module")
def database():
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


# --- The join types in SQL ---


def load(database, spec, rows, probes):
    """Make `l` and `r` of all rows that are not late, those without a key too; return the inner pairs."""
    pairs, late = by_duckdb(database, spec, rows)
    admitted = "{0}id NOT IN (FROM late)" if late else "TRUE"
    database.register("probing", {"number": np.array(sorted(probes), np.int64)})
    for name in "lr":
        columns = [f"{name}id NOT IN (SELECT number FROM probing) AS stored"]
        for i, condition in enumerate(spec.on):
            key = f"{name}k{i}"
            is_nan = f"isnan({key})" if condition.columns.is_float else "FALSE"
            columns.append(f"CASE WHEN {is_nan} THEN NULL ELSE {key} END AS {key}")
        kept = [f"{name}id", "pos", "others", *([f"{name}ts"] if spec.timed else [])]
        database.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {', '.join([*kept, *columns])} "
            f"FROM all_{name} WHERE {admitted.format(name)}"
        )
    return pairs


def joined(database, spec, probes):
    """The results of a join type, sorted; -1 where there is no partner.

    DuckDB 2.0.0 loses matches of SEMI and ANTI joins whose condition is more than comparisons of one side
    with the other (duckdb/duckdb issue 23932 is of this kind); there EXISTS says the same.
    """
    conditions = [sql_of(condition, i) for i, condition in enumerate(spec.on)]
    windows = [window for window in window_sqls(spec) if window != "TRUE"]
    conditions += [f"({' OR '.join(f'({window})' for window in windows)})"] if windows else []
    if probes:  # of two rows the one that came first must have been kept
        conditions.append("CASE WHEN l.lid < r.rid THEN l.stored ELSE r.stored END")
    on = " AND ".join(conditions)
    join, left, right = JOINS[spec.how], f"coalesce(l.lid, {NOBODY})", f"coalesce(r.rid, {NOBODY})"
    if spec.how not in ONLY:
        query = f"SELECT {left} AS lid, {right} AS rid FROM l {join} r ON {on}"
    else:
        one, other = "rl" if ONLY[spec.how] else "lr"
        columns = f"{NOBODY} AS lid, rid" if ONLY[spec.how] else f"lid, {NOBODY} AS rid"
        if probes or len(windows) > 1:
            exists = "EXISTS" if join == "SEMI JOIN" else "NOT EXISTS"
            query = f"SELECT {columns} FROM {one} WHERE {exists} (FROM {other} WHERE {on})"
        else:
            query = f"SELECT {columns} FROM {one} {join} {other} ON {on}"
    found = database.execute(query).fetchnumpy()
    return ordered(found["lid"], found["rid"])


def agree_among_themselves(answers):
    """The arbiter's types must not contradict each other: it has had bugs in semi and anti joins."""
    unmatched = len(answers["full"][0]) - len(answers["inner"][0])
    for side, name in enumerate(("left", "right")):
        lone = np.sort(answers[name][side][answers[name][1 - side] == NOBODY])
        met = np.unique(answers["inner"][side])
        np.testing.assert_array_equal(answers[f"{name}_semi"][side], met, "DuckDB's semi join")
        np.testing.assert_array_equal(answers[f"{name}_anti"][side], lone, "DuckDB's anti join")
        unmatched -= len(lone)
    assert unmatched == 0


def as_arrays(results):
    numbers = [[NOBODY if number is None else number for number in pair] for pair in results]
    return ordered(*np.array(numbers, np.int64).reshape(-1, 2).T)


def check(database, spec, rows, *, splits=(), probes=(), with_reference=False, hows=HOWS):
    """Compare every join type, and return how many results each has."""
    pairs = load(database, spec, rows, probes)
    answers = {how: joined(database, replace(spec, how=how), probes) for how in hows}
    if not probes:
        np.testing.assert_array_equal(answers["inner"], pairs)
    if set(hows) == set(HOWS):
        agree_among_themselves(answers)
    made = parts(spec, rows, splits=splits, probes=probes)
    for how, wanted in answers.items():
        each = replace(spec, how=how)
        if with_reference:
            chunks, counters = expected(each, rows, probes=probes)
            by_reference = as_arrays([result for chunk in chunks for result in chunk])
            np.testing.assert_array_equal(by_reference, wanted, f"the arbiters disagree on {how}")
        for index in INDEXES if len(rows) < 5000 else ("b-tree",):
            found, stats = run(each, rows, made=made, index=index)
            np.testing.assert_array_equal(as_arrays(found), wanted, f"{how} with {index}")
            assert stats["matches"] == len(answers["inner"][0])
            assert not with_reference or stats == counters
    return {how: len(wanted[0]) for how, wanted in answers.items()}


# --- Random input ---


@pytest.mark.parametrize("name", BANDED)
def test_bands(database, name):
    spec = Spec((Condition("band", name, (narrow(name),)),), ALL, one_name=False)
    rows = stream([replace(INPUTS[name], spread=4 * INPUTS[name].spread)], 150, 11)
    counts = check(database, spec, rows, splits=range(40, 150, 40), with_reference=True)
    assert counts["inner"] > 3
    assert counts["left_anti"] > 0


@pytest.mark.parametrize("op", ["equal", "not_equal", "less", "greater_equal"])
@pytest.mark.parametrize("name", INPUTS)
def test_comparisons(database, op, name):
    if op not in KINDS[name].ops:
        return
    spec = Spec((Condition(op, name),), ALL, one_name=False)
    rows = stream([INPUTS[name]], 700 if op == "equal" else 100, op)
    rows += [Row(side, (None,), None) for side in (0, 1)]
    counts = check(database, spec, rows, splits=range(50, len(rows), 77), with_reference=len(rows) < 200)
    assert counts["inner"] > 1
    assert counts["left_anti"] > 0  # the null at the least


WINDOWS = [Rows(40, 25), Within(60), Interval(30, 50, 10**6), Interval(30, 50, 10), Interval(-5, 20, 25)]
CONJUNCTIONS = {
    "text and band": (("equal", "string"), ("band", "int64")),
    "two bands": (("band", "float64"), ("band", "us")),
    "text and two more": (("equal", "texts"), ("not_equal", "int64"), ("greater_equal", "decimals")),
}


@pytest.mark.parametrize("conjuncts", CONJUNCTIONS.values(), ids=CONJUNCTIONS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("probing", [False, True], ids=["all stored", "some probe"])
def test_conjunctions_and_windows(database, conjuncts, window, probing):
    """Interval windows are ranges of time; late rows are in no join type."""
    on, inputs = [], []
    for op, name in conjuncts:
        on.append(Condition(op, name, (narrow(name),) if op == "band" else ()))
        inputs.append(replace(INPUTS[name], spread=0.02 if op in ("equal", "band") else 1))
    spec = Spec(tuple(on), window, one_name=False)
    found = 0
    for size, with_reference in ((120, True), (1200 if LONG else 600, False)):
        rows = stream(inputs, size, 13, disorder=40 if isinstance(window, Interval) else 0)
        probes = {number for number in range(size) if number // 15 % 3 == 1} if probing else ()
        options = {"probes": probes, "with_reference": with_reference}
        found += check(database, spec, rows, splits=range(33, size, 333), **options)["left_semi"]
    assert found > 1


@pytest.mark.parametrize("time", TIMES)
def test_times_of_every_type(database, time):
    unit = max(TIMES[time].per_value(0), TIMES[time].per_value(1))
    window = Interval(10 * unit, 15 * unit, 5 * unit)
    spec = Spec((Condition("equal", "int8"),), window, time=time, one_name=False)
    rows = stream([replace(INPUTS["int8"], least=30)], 600, time, disorder=12, time=time)
    assert check(database, spec, rows, splits=range(100, 600, 117))["left_anti"] > 10
    assert check(database, spec, rows[:120], with_reference=True)["inner"] > 1


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_an_empty_side(database, right):
    spec = Spec((Condition("equal", "string"),), ALL, one_name=False)
    rows = stream([INPUTS["string"]], 100, 4, right=right)
    counts = check(database, spec, rows, with_reference=True)
    assert counts["full"] == 100
    assert counts["left_anti"] == counts["left"] == (0 if right else 100)
    assert counts["right_anti"] == counts["right"] == (100 if right else 0)
    assert check(database, spec, [], with_reference=True)["full"] == 0


LARGE = {
    "text and band": ((("equal", "string"), ("band", "int64")), Interval(200, 300, 10**9)),
    "late rows": ((("equal", "int64"),), Interval(20_000, 30_000, 5)),
    "within": ((("equal", "int8"),), Within(40)),
}


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_many_rows(database, case):
    conjuncts, window = case
    on = tuple(Condition(op, name, (narrow(name),) if op == "band" else ()) for op, name in conjuncts)
    spec = Spec(on, window, one_name=False)
    inputs = [replace(INPUTS[name], spread=0.001) if len(on) > 1 else INPUTS[name] for _, name in conjuncts]
    rows = stream(inputs, MANY, 5, disorder=30 if isinstance(window, Interval) else 0)
    counts = check(database, spec, rows, splits=range(8192, MANY, 8192))
    assert counts["inner"] > 1000
    assert counts["left_anti"] > 1000


def test_a_band_of_many_rows(database):
    """Inner and outer joins only: DuckDB compares all with all for semi and anti joins without equality."""
    spec = Spec((Condition("band", "int64", (narrow("int64"),)),), ALL, one_name=False)
    rows = stream([INPUTS["int64"]], MANY, 6)
    outer = ("inner", "left", "right", "full")
    counts = check(database, spec, rows, splits=range(8192, MANY, 8192), hows=outer)
    assert counts["left"] > counts["inner"] > 1000


# --- Real data, beside the repository ---


def records(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not there: real data is kept beside the repository, not in it")
    with path.open() as file:
        return list(csv.DictReader(file))


def test_earthquakes_with_and_without_aftershocks(database):
    """Every quake plays both sides: right ones are weaker, near, and at most six hours later."""
    quakes = sorted(records("earthquakes.csv"), key=lambda quake: int(quake["time_ms"]))
    rows = []
    for quake in quakes:
        lat, lon, mag = (float(quake[name]) if quake[name] else None for name in ("lat", "lon", "mag"))
        rows += [Row(side, (lat, lon, mag), int(quake["time_ms"])) for side in (0, 1)]
    near = Condition("band", "float64", ((-0.2, 0.2),))
    six_hours = 6 * 3600 * 1000
    on = (near, near, Condition("greater", "float64"))
    spec = Spec(on, Interval(0, six_hours, six_hours), one_name=False)
    check(database, spec, rows[:400], with_reference=True)
    counts = check(database, spec, rows, splits=range(500, len(rows), 500))
    assert counts["left_semi"] > 100
    assert counts["left_semi"] + counts["left_anti"] == len(quakes)


def test_logistics_out_of_order(database):
    """Equality within an interval of event time, in the order of arrival, some rows too late."""
    arrivals = []
    for side, name in enumerate(("logistics_r.csv", "logistics_s.csv")):
        for record in records(name)[:: (20, 30)[side]]:
            row = Row(side, (int(record["key"]), int(record["value"])), int(record["eventTime"]))
            arrivals.append((float(record["arrivalTime"]), row))
    arrivals.sort(key=lambda arrival: arrival[0])
    rows = [row for _, row in arrivals]
    on = (Condition("equal", "int64"), Condition("band", "int64", ((-1, 1),)))
    for lateness in (6, 9) if LONG else (6,):
        spec = Spec(on, Interval(1, 2, lateness), one_name=False)
        check(database, spec, rows[:300], with_reference=True)
        counts = check(database, spec, rows, splits=range(1000, len(rows), 1000))
        assert counts["inner"] > 1000
        assert counts["left_anti"] > 10


def test_youtube_videos_of_like_popularity(database):
    """Views follow a rank-size law: crowds of partners at the low end, none at the high end."""
    videos = records("youtube_views.csv")
    rows = [Row(number % 2, (int(video["views"]),), None) for number, video in enumerate(videos)]
    on = (Condition("band", "int64", ((-20, 20),)),)
    for window in (ALL, Rows(300, 500)):
        spec = Spec(on, window, one_name=False)
        check(database, spec, rows[:300], with_reference=True)
        counts = check(database, spec, rows, splits=range(512, len(rows), 512))
        assert counts["left_semi"] > 100
        assert counts["left_anti"] > 500
