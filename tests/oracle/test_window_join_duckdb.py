"""DuckDB computes the same joins in SQL: many rows, and few ones three-way with the reference.

SQL knows no arrivals: windows become conditions on numbers of rows and on timestamps. Conditions are written
so that DuckDB has a hash or a range join for them. SLIDEJOIN_TESTS=long has 10^5 rows.
"""

import itertools
import math
import os
import random
from dataclasses import dataclass, replace
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from cases import INDEXES
from window_cases import KINDS, TIMES, Condition, Row, Spec, expected, parts, run

from slidejoin import reference
from slidejoin.reference import Interval, Rows, Within

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
MANY = 100_000 if LONG else 30_000
ALL = Rows(2**30, 2**30)
SIGNS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


@pytest.fixture(scope="module")
def database():
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


# --- Conditions in SQL, from the types of columns alone ---


def number(kind, side, name):
    """A column as what DuckDB adds and compares exactly: whole numbers of the model, or floats."""
    type_ = (kind.left, kind.right)[side]
    if kind.is_float:
        return f"CAST({name} AS {'FLOAT' if kind.band == 'float32' else 'DOUBLE'})"
    if pa.types.is_integer(type_):
        return f"CAST({name} AS HUGEINT)"
    if pa.types.is_timestamp(type_):
        return f"CAST(epoch_ns({name}) // {int(kind.unit)} AS HUGEINT)"
    if pa.types.is_decimal(type_):
        return f"CAST({name} AS DECIMAL(38, 4)) * {int(1 / kind.unit)}"
    if pa.types.is_date(type_):
        return f"CAST(date_diff('day', DATE '1970-01-01', {name}) AS HUGEINT)"
    return name


def sql_of(condition, i):
    kind = condition.columns
    if not condition.ranges:
        return f"l.lk{i} {SIGNS[condition.op]} r.rk{i}"
    left, right = number(kind, 0, f"l.lk{i}"), number(kind, 1, f"r.rk{i}")
    if condition.op in SIGNS:  # an offset: the whole numbers on the side of a match are the same
        whole = math.floor if condition.op in ("less", "greater_equal") else math.ceil
        return f"{left} + {literal(kind, condition.offset, whole)} {SIGNS[condition.op]} {right}"
    ranges = []
    for lower, upper in condition.ranges:
        ends = [] if lower is None else [f"{right} >= {left} + {literal(kind, lower, math.ceil)}"]
        ends += [] if upper is None else [f"{right} <= {left} + {literal(kind, upper, math.floor)}"]
        ranges.append(" AND ".join(ends))
    return f"({' OR '.join(ranges)})"


def literal(kind, bound, whole):
    if kind.is_float:
        return f"CAST('{bound!r}' AS {'FLOAT' if kind.band == 'float32' else 'DOUBLE'})"
    return str(whole(bound))


def dead(spec, side):
    """Rows that can never match, of a table with the columns of a side."""
    prefix = "lr"[side]
    parts = [f"{prefix}k{i} IS NULL" for i in range(len(spec.on))]
    parts += [f"isnan({prefix}k{i})" for i, c in enumerate(spec.on) if c.columns.is_float]
    parts += [f"{prefix}ts IS NULL"] if spec.timed else []
    return f"({' OR '.join(parts)})"


def window_sqls(spec):
    """One or two conditions, each for pairs that no other holds for."""
    later = ("l.lid < r.rid", "r.rid < l.lid")
    if spec.timed:
        left, right = number(TIMES[spec.time], 0, "l.lts"), number(TIMES[spec.time], 1, "r.rts")
    match spec.window:
        case Rows(left, right) if min(left, right) >= 2**30:
            return ["TRUE"]
        case Rows(kept_left, kept_right):
            return [
                f"{later[0]} AND l.pos >= r.others - {kept_left}",
                f"{later[1]} AND r.pos >= l.others - {kept_right}",
            ]
        case Within(duration):
            return [f"{right} >= {left} - {duration} AND {right} <= {left} + {duration}"]
        case Interval(before, after):
            return [f"{right} >= {left} - {before} AND {right} <= {left} + {after}"]


def by_duckdb(database, spec, rows):
    """The pairs of numbers of rows, sorted, and the number of late rows."""
    for side in (0, 1):
        mine = [(n, row) for n, row in enumerate(rows) if row.side == side]
        table = spec.table(side, [row for _, row in mine], [n for n, _ in mine])
        for i, type_ in enumerate(table.schema.types):
            if pa.types.is_decimal(type_):
                table = table.set_column(
                    i, table.column_names[i], table[i].cast(pa.decimal128(38, type_.scale))
                )
            elif pa.types.is_dictionary(type_):
                table = table.set_column(i, table.column_names[i], table[i].cast(pa.string()))
        numbers = np.array([n for n, _ in mine], np.int64)
        others = np.searchsorted(np.array([n for n, r in enumerate(rows) if r.side != side]), numbers)
        table = table.append_column("pos", pa.array(range(len(mine)), pa.int64()))
        table = table.append_column("others", pa.array(others, pa.int64()))
        database.register(f"all_{'lr'[side]}", table)
    late = drop_late(database, spec)
    on = " AND ".join(sql_of(condition, i) for i, condition in enumerate(spec.on))
    query = " UNION ALL ".join(
        f"SELECT l.lid, r.rid FROM l JOIN r ON {on} AND {window}" for window in window_sqls(spec)
    )
    found = database.execute(query).fetchnumpy()
    return ordered(found["lid"], found["rid"]), late


def drop_late(database, spec):
    """Make `l` and `r` of the rows that are not late and can match; return how many were late."""
    lateness = spec.window.lateness if isinstance(spec.window, Interval) else None
    if lateness is None:
        for side in (0, 1):
            name = "lr"[side]
            database.execute(
                f"CREATE OR REPLACE TEMP TABLE {name} AS FROM all_{name} WHERE NOT {dead(spec, side)}"
            )
        return 0
    times = " UNION ALL ".join(
        f"SELECT {name}id AS number, {side} AS side, {number(TIMES[spec.time], side, f'{name}ts')} AS ts "
        f"FROM all_{name}"
        for side, name in enumerate("lr")
    )
    seen = [f"max(ts) FILTER (side = {side}) OVER before" for side in (0, 1)]
    database.execute(f"""
        CREATE OR REPLACE TEMP TABLE late AS
        WITH times AS ({times})
        SELECT number FROM times
        WINDOW before AS (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        QUALIFY {seen[0]} IS NOT NULL AND {seen[1]} IS NOT NULL
            AND ts < least({", ".join(seen)}) - {lateness}
    """)
    for side in (0, 1):
        name = "lr"[side]
        database.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM all_{name} "
            f"WHERE NOT {dead(spec, side)} AND {name}id NOT IN (FROM late)"
        )
    return database.execute("SELECT count(*) FROM late").fetchone()[0]


def ordered(left, right):
    left, right = np.asarray(left, np.int64), np.asarray(right, np.int64)
    places = np.lexsort((right, left))
    return left[places], right[places]


def check(database, spec, rows, *, splits=(), with_reference=False):
    """Compare, and return the number of pairs."""
    wanted, late = by_duckdb(database, spec, rows)
    made = parts(spec, rows, splits=splits)
    for index in INDEXES if len(rows) < 5000 else ("b-tree",):
        found, stats = run(spec, rows, made=made, index=index)
        pairs = ordered(*np.array(found, np.int64).reshape(-1, 2).T)
        np.testing.assert_array_equal(pairs, wanted)
        assert stats["late_left"] + stats["late_right"] == late
        assert stats["matches"] == len(wanted[0])
        assert len({*found}) == len(found)
    if with_reference:
        chunks, counters = expected(spec, rows)
        assert sorted(itertools.chain(*chunks)) == list(zip(*(part.tolist() for part in wanted), strict=True))
        assert counters == stats
    return len(wanted[0])


# --- Input ---


@dataclass(frozen=True)
class Input:
    """How the key of a kind is drawn: from a domain that suits the number of rows."""

    kind: str
    spread: float = 1.0  # different values, in proportion to the number of rows
    specials: tuple = ()  # values that a few rows have
    least: int = 4  # different values at the least

    def drawer(self, choose, side, n):
        """A function that draws the key of a row of a side."""
        kind = KINDS[self.kind]
        most = max(int(self.spread * n), self.least)
        steps = (1, 1) if kind.is_text or kind.is_float else (kind.per_value(0), kind.per_value(1))
        whole, own = max(steps), steps[side]
        if kind.is_text:
            as_text = str.encode if kind.left == pa.binary() else str
            made = lambda value: as_text(f"key {value}")  # noqa: E731
        elif kind.is_float:
            exact = reference.to_float32 if (kind.left, kind.right)[side] == pa.float32() else float
            made = lambda value: exact(value / 10)  # noqa: E731
        else:  # whole ones of the coarser side, and some between

            def made(value):
                return value * whole + (choose.randrange(whole // own) * own if choose.random() < 0.3 else 0)

        def draw():
            chance = choose.random()
            if chance < 0.02:
                return None
            if chance < 0.04 and self.specials:
                return choose.choice(self.specials)
            return made(choose.randrange(most))

        return draw


def stream(inputs, n, seed, *, right=0.5, disorder=0, time="int64"):
    """Rows in the order of their arrival; times rise by one on average, with disorder and a few nulls."""
    choose = random.Random(f"{inputs} {n} {seed}")
    draws = [[each.drawer(choose, side, n) for each in inputs] for side in (0, 1)]
    step = max(TIMES[time].per_value(0), TIMES[time].per_value(1))
    rows, now = [], 100
    for _ in range(n):
        side = int(choose.random() < right)
        now += choose.choice((0, 1, 2))
        ts = (now - choose.randrange(disorder + 1)) * step
        key = tuple(draw() for draw in draws[side])
        rows.append(Row(side, key, None if choose.random() < 0.005 else ts))
    return rows


BIG, LOW = 2**63 - 1, -(2**63)
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.7976931348623157e308, -1.7976931348623157e308)
FLOATS32 = (math.nan, math.inf, -math.inf, 0.0, -0.0, 3.4028234663852886e38)
INPUTS = {
    "int64": Input("int64", 1, (BIG, BIG - 1, LOW, LOW + 1)),
    "int8": Input("int8", 0, (127, 126, -128), 100),
    "uint64": Input("uint64", 1, (2**64 - 1, 2**64 - 2, 0)),
    "int8, int32": Input("int8, int32", 0, (127, -128), 100),
    "float64": Input("float64", 3, FLOATS),
    "float32": Input("float32", 3, FLOATS32),
    "float64, float32": Input("float64, float32", 3, FLOATS32),
    "us": Input("us", 1, (-(10**15), 10**15)),
    "ms, us": Input("ms, us", 1),
    "zones": Input("zones", 1),
    "date": Input("date", 0.02, (-20000, 20000)),
    "decimal": Input("decimal", 1, (-(10**11), 10**11)),
    "decimals": Input("decimals", 1),
    "string": Input("string", 0.5, ("", "ä", "a\x00", "a")),
    "texts": Input("texts", 0.5, ("", "ä")),
    "binary": Input("binary", 0.5, (b"", b"\x00", b"\xff")),
}


def narrow(name):
    """A band of a kind that leaves few pairs of a row."""
    kind = KINDS[name]
    if kind.is_float:
        return (-0.3, 0.4)
    step = max(kind.per_value(0), kind.per_value(1))
    return (-2 * step, Fraction(5, 2) * step)


SIZES = {"small": 150, "middle": 2000}
BANDED = [name for name in INPUTS if KINDS[name].band]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", BANDED)
def test_bands(database, name, size):
    spec = Spec((Condition("band", name, (narrow(name),)),), ALL, one_name=False)
    rows = stream([INPUTS[name]], SIZES[size] if INPUTS[name].spread else 300, size)
    splits = range(70, len(rows), 701)
    assert check(database, spec, rows, splits=splits, with_reference=size == "small") > 30


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("op", SIGNS)
def test_comparisons(database, op, name):
    if op not in KINDS[name].ops:
        return
    spec = Spec((Condition(op, name),), ALL, one_name=False)
    rows = stream([INPUTS[name]], 2000 if op == "equal" else 150, op)
    assert check(database, spec, rows, splits=range(50, len(rows), 501), with_reference=len(rows) < 200) > 3


@pytest.mark.parametrize("name", BANDED)
@pytest.mark.parametrize("op", ["band lower", "band upper", "less", "less_equal", "greater", "greater_equal"])
def test_half_lines(database, op, name):
    """Bands with one bound, and comparisons with an offset."""
    low, high = narrow(name)
    half = (high, None) if op in ("band lower", "less", "less_equal") else (None, low)
    spec = Spec((Condition(op.split()[0], name, (half,)),), ALL, one_name=False)
    rows = stream([INPUTS[name]], 150, op)
    assert check(database, spec, rows, splits=range(50, len(rows), 51), with_reference=True) > 3


@pytest.mark.parametrize("name", ["int64", "float64", "us", "decimal"])
def test_unions_of_bands(database, name):
    step = 0.1 if KINDS[name].is_float else max(KINDS[name].per_value(0), KINDS[name].per_value(1))
    ranges = ((-5 * step, -3 * step), (-4 * step, 0 * step), (6 * step, 8 * step))
    spec = Spec((Condition("bands", name, ranges),), ALL, one_name=False)
    assert check(database, spec, stream([INPUTS[name]], 150, 1), with_reference=True) > 20
    assert check(database, spec, stream([INPUTS[name]], 1500, 2), splits=(1000,)) > 200


CONJUNCTIONS = {
    "text and band": (("equal", "string"), ("band", "int64")),
    "two bands": (("band", "float64"), ("band", "us")),
    "band and inequality": (("band", "int64"), ("less", "float64")),
    "text and two more": (("equal", "texts"), ("not_equal", "int64"), ("greater_equal", "decimals")),
    "two texts": (("equal", "string"), ("not_equal", "binary")),
}


@pytest.mark.parametrize("conjuncts", CONJUNCTIONS.values(), ids=CONJUNCTIONS)
@pytest.mark.parametrize(
    "window", [ALL, Rows(40, 25), Within(60), Interval(30, 50, 10**6), Interval(30, 50, 10)], ids=str
)
def test_conjunctions_and_windows(database, conjuncts, window):
    """Interval windows are ranges of time; with little lateness the late rows are missing on both sides."""
    on, inputs = [], []
    for op, name in conjuncts:
        on.append(Condition(op, name, (narrow(name),) if op == "band" else ()))
        inputs.append(replace(INPUTS[name], spread=0.02 if op in ("equal", "band") else 1))
    disorder = 40 if isinstance(window, Interval) else 0
    found = 0
    for size, with_reference in ((120, True), (1500, False)):
        spec = Spec(tuple(on), window, one_name=False)
        rows = stream(inputs, size, 3, disorder=disorder)
        found += check(database, spec, rows, splits=range(33, size, 333), with_reference=with_reference)
    assert found > 1


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("window", [Within(20), Interval(10, 15, 5), Interval(-3, 15)], ids=str)
def test_times_of_every_type(database, time, window):
    unit = max(TIMES[time].per_value(0), TIMES[time].per_value(1))
    parts = {name: value * unit for name, value in vars(window).items() if isinstance(value, int)}
    spec = Spec((Condition("equal", "int8"),), replace(window, **parts), time=time, one_name=False)
    disorder = 12 if isinstance(window, Interval) else 0
    rows = stream([replace(INPUTS["int8"], least=8)], 1000, time, disorder=disorder, time=time)
    assert check(database, spec, rows, splits=range(100, 1000, 117)) > 100
    assert check(database, spec, rows[:150], with_reference=True) > 10


@pytest.mark.parametrize("right", [0.0, 1.0])
@pytest.mark.parametrize("name", ["int64", "string", "float64"])
def test_an_empty_side(database, name, right):
    spec = Spec((Condition("equal", name),), ALL, one_name=False)
    rows = stream([INPUTS[name]], 100, 4, right=right)
    assert check(database, spec, rows, with_reference=True) == 0
    assert check(database, spec, [], with_reference=True) == 0


LARGE = {
    "band": ((("band", "int64"),), ALL),
    "floats": ((("band", "float64"),), ALL),
    "text and band": ((("equal", "string"), ("band", "int64")), Interval(200, 300, 10**9)),
    "late rows": ((("equal", "int64"),), Interval(20_000, 30_000, 5)),
}


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_many_rows(database, case):
    conjuncts, window = case
    on = tuple(Condition(op, name, (narrow(name),) if op == "band" else ()) for op, name in conjuncts)
    spec = Spec(on, window, one_name=False)
    inputs = [replace(INPUTS[name], spread=0.001) if len(on) > 1 else INPUTS[name] for _, name in conjuncts]
    rows = stream(inputs, MANY, 5, disorder=30 if isinstance(window, Interval) else 0)
    assert check(database, spec, rows, splits=range(8192, MANY, 8192)) > 1000
