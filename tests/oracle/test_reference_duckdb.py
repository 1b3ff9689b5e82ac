"""DuckDB computes the same joins in SQL, from the definitions, and the reference must agree.

The oracle sees one table of arrivals. It derives positions, late rows, visible rows and the
moment at which each row is final with window functions, so nothing is shared with the reference
but the meaning. Results are compared in full order, finals and counters of late rows included.
"""

import math
import random
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from slidejoin import reference
from slidejoin.reference import LEFT, RIGHT, Arrival, Interval, Rows, Within

HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti")
JOIN_OF = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "left_semi": "SEMI JOIN",
    "left_anti": "ANTI JOIN",
    "right_anti": "ANTI JOIN",
}


@dataclass(frozen=True)
class On:
    """A predicate twice: for the reference, and as SQL over `l` and `r` with the key columns."""

    matches: reference.Predicate
    sql: str
    types: tuple[str, ...]


def int_band(lower, upper, sql_type="BIGINT"):
    """Compare as exact decimals: no rounding of the bounds is needed to define the pairs."""
    low, high = (f"CAST('{Decimal(str(bound))}' AS DECIMAL(38, 3))" for bound in (lower, upper))
    left, right = (f"CAST({side}.k0 AS DECIMAL(38, 3))" for side in "lr")
    sql = f"{left} + {low} <= {right} AND {right} <= {left} + {high}"
    return On(reference.band(Fraction(str(lower)), Fraction(str(upper))), sql, (sql_type,))


def float_band(lower, upper, kind):
    sql_type = {"float64": "DOUBLE", "float32": "FLOAT"}[kind]
    low, high = (f"CAST('{bound!r}' AS {sql_type})" for bound in (lower, upper))
    sql = f"l.k0 + {low} <= r.k0 AND r.k0 <= l.k0 + {high} AND NOT isnan(l.k0) AND NOT isnan(r.k0)"
    return On(reference.band(lower, upper, kind), sql, (sql_type,))


def compared(name, sign, sql_type, *offset):
    """A comparison, with what is added to the left key: exactly, or as floats do."""
    kind = {"DOUBLE": "float64", "FLOAT": "float32"}.get(sql_type, "int")
    type_ = "DECIMAL(38, 3)" if kind == "int" else sql_type
    left, right = ("l.k0", "r.k0") if not offset else (f"CAST({side}.k0 AS {type_})" for side in "lr")
    added = "".join(f" + CAST('{bound!r}' AS {type_})" for bound in offset)
    sql = f"{left}{added} {sign} {right}"
    if kind != "int":
        sql += " AND NOT isnan(l.k0) AND NOT isnan(r.k0)"
    given = [Fraction(str(bound)) if kind == "int" else bound for bound in offset]
    return On(
        getattr(reference, name)(*given, kind) if given else getattr(reference, name)(), sql, (sql_type,)
    )


COMPARISONS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
ANY_ROW = On(lambda _left, _right: True, "TRUE", ("BIGINT",))


@pytest.fixture(scope="module")
def database():
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def load(database, arrivals, on, window, self_join=False):
    """Make the table `arrivals` of all rows, and `l` and `r` of those that are not late.

    Columns: `number` in arrival order, `pos` on the own side, `rows_*` and `clock_*` of each side
    before the row, `dead` for a row that can never match, `watermark` after the row.
    """
    keys = [f"k{i} {sql_type}" for i, sql_type in enumerate(on.types)]
    database.execute(f"CREATE OR REPLACE TABLE raw (number INT, side INT, ts BIGINT, {', '.join(keys)})")
    rows = [
        (number, LEFT if self_join else row.side, row.ts, *parts(row.key, on))
        for number, row in enumerate(arrivals)
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    unnested = ", ".join("unnest(?)" for _ in columns)
    database.execute(f"INSERT INTO raw SELECT {unnested}", columns)

    lateness = window.lateness if isinstance(window, Interval) else None
    shift = "NULL" if lateness is None else str(lateness)
    sides = (LEFT,) if self_join else (LEFT, RIGHT)
    seen = [f"max(ts) FILTER (side = {side}) OVER (ORDER BY number)" for side in sides]
    # `least` skips nulls, but a side without rows must hold the watermark back.
    slowest = f"CASE WHEN {' IS NULL OR '.join(seen)} IS NULL THEN NULL ELSE least({', '.join(seen)}) END"
    dead = [f"k{i} IS NULL" for i in range(len(on.types))]
    dead += [f"isnan(k{i})" for i, name in enumerate(on.types) if name in ("DOUBLE", "FLOAT")]
    if not isinstance(window, Rows):
        dead.append("ts IS NULL")
    database.execute(f"""
        CREATE OR REPLACE TABLE arrivals AS
        WITH clocked AS (SELECT *, {slowest} - {shift} AS watermark FROM raw),
        judged AS (
            SELECT *, coalesce(ts < lag(watermark) OVER (ORDER BY number), FALSE) AS late
            FROM clocked
        )
        SELECT *, coalesce({" OR ".join(dead)}, FALSE) AS dead FROM judged
    """)
    database.execute("""
        CREATE OR REPLACE TABLE admitted AS
        SELECT *,
            row_number() OVER (PARTITION BY side ORDER BY number) - 1 AS pos,
            count(*) FILTER (side = 0) OVER before AS rows_0,
            count(*) FILTER (side = 1) OVER before AS rows_1,
            max(ts) FILTER (side = 0) OVER before AS clock_0,
            max(ts) FILTER (side = 1) OVER before AS clock_1
        FROM arrivals WHERE NOT late
        WINDOW before AS (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    """)
    database.execute("CREATE OR REPLACE VIEW l AS SELECT * FROM admitted WHERE side = 0")
    right_side = 0 if self_join else 1
    database.execute(f"CREATE OR REPLACE VIEW r AS SELECT * FROM admitted WHERE side = {right_side}")


def parts(key, on):
    return key if len(on.types) > 1 else (key,)


def window_sql(window, right_side=RIGHT):
    """State which pairs of `l` and `r` may meet."""
    match window:
        case Rows(left, right):
            old_left = f"l.pos >= r.rows_0 - {left}"
            old_right = f"r.pos >= l.rows_{right_side} - {right}"
        case Within(duration, "cross"):
            old_left = f"l.ts >= r.ts - {duration}"
            old_right = f"r.ts >= l.ts - {duration}"
        case Within(duration, "self"):
            old_left = f"l.ts >= r.clock_0 - {duration}"
            old_right = f"r.ts >= l.clock_{right_side} - {duration}"
        case Interval(before, after):
            old_left = old_right = f"r.ts - l.ts BETWEEN {-before} AND {after}"
    met = f"(l.number < r.number AND {old_left} OR r.number < l.number AND {old_right})"
    return f"{met} AND NOT l.dead AND NOT r.dead"


def final_sql(window, row, side):
    """State at which arrival a row of a side is final; null when only the end of input does it."""
    match window:
        case Rows(left, right):
            kept = (left, right)[side]
            leaves = f"x.side = {side} AND x.pos >= {row}.pos + {kept}"
        case Within(duration, purge):
            leaves = f"x.ts > {row}.ts + {duration}"
            if purge == "self":
                leaves += f" AND x.side = {side}"
        case Interval(before, after):
            leaves = f"x.watermark > {row}.ts + {(after, before)[side]}"
    first = f"SELECT min(x.number) FROM admitted x WHERE x.number >= {row}.number AND {leaves}"
    return f"CASE WHEN {row}.dead THEN {row}.number ELSE ({first}) END"


def expected_results(database, on, window, how):
    """Return the whole output in order: pairs by later row and partner, then what became final."""
    condition = f"({on.sql}) AND {window_sql(window)}"
    one, other = "rl" if how.startswith("right") else "lr"
    if how.endswith("semi"):
        first = f"SELECT min(greatest(l.number, r.number)) FROM {other} WHERE {condition}"
        columns = "NULL, pos" if one == "r" else "pos, NULL"
        query = f"""
            SELECT {columns} FROM (SELECT {one}.pos, ({first}) AS moment FROM {one})
            WHERE moment IS NOT NULL ORDER BY moment, pos
        """
        rows = database.execute(query).fetchall()
        semi = f"SELECT {columns} FROM {one} SEMI JOIN {other} ON {condition}"
        assert Counter(rows) == Counter(database.execute(semi).fetchall())
        return rows
    columns, tables = "l.pos, r.pos, l.number, r.number", "lr"
    if how == "left_anti":
        columns = "l.pos, NULL, l.number, NULL"
    elif how == "right_anti":
        columns, tables = "NULL, r.pos, NULL, r.number", "rl"
    joined = f"SELECT {columns} FROM {tables[0]} {JOIN_OF[how]} {tables[1]} ON {condition}"
    query = f"""
        WITH joined(left_pos, right_pos, left_number, right_number) AS ({joined})
        SELECT left_pos, right_pos FROM joined
        LEFT JOIN (SELECT l.number, {final_sql(window, "l", LEFT)} AS moment FROM l) fl
            ON right_number IS NULL AND fl.number = left_number
        LEFT JOIN (SELECT r.number, {final_sql(window, "r", RIGHT)} AS moment FROM r) fr
            ON left_number IS NULL AND fr.number = right_number
        ORDER BY
            CASE
                WHEN right_number IS NULL THEN fl.moment
                WHEN left_number IS NULL THEN fr.moment
                ELSE greatest(left_number, right_number)
            END NULLS LAST,
            left_number IS NULL OR right_number IS NULL,
            CASE WHEN left_number < right_number THEN left_pos END,
            CASE WHEN left_number > right_number THEN right_pos END,
            left_pos NULLS LAST,
            right_pos
    """
    return database.execute(query).fetchall()


def check(database, arrivals, on, window, how="inner"):
    """Run both, compare everything that comes out, and return the number of results."""
    load(database, arrivals, on, window)
    join = reference.ReferenceJoin(on.matches, window, how)
    actual = [result for row in arrivals for result in join.push(*row)] + join.finish()
    expected = expected_results(database, on, window, how)
    assert actual == expected
    late = database.execute("""
        SELECT count(*) FILTER (late AND side = 0), count(*) FILTER (late AND side = 1),
            count(*) FILTER (dead AND NOT late AND side = 0),
            count(*) FILTER (dead AND NOT late AND side = 1)
        FROM arrivals
    """).fetchone()
    counters = ("late_left", "late_right", "null_left", "null_right")
    assert tuple(join.stats[counter] for counter in counters) == late
    return len(expected)


def arrivals_of(generator, size, key, window):
    """Generate rows whose timestamps suit the window: in order, or in disorder for an interval."""
    clock = 0
    rows = []
    for _ in range(size):
        clock += generator.choice((0, 0, 1, 1, 2, 5))
        ts = clock - generator.randrange(8) if isinstance(window, Interval) else clock
        if generator.random() < 0.05:
            ts = None
        rows.append(Arrival(generator.choice((LEFT, RIGHT)), key(generator), ts))
    return rows


def small_key(generator):
    return generator.choice((None, *range(10)))


WINDOWS = {
    "rows": Rows(6, 6),
    "rows uneven": Rows(3, 11),
    "rows one": Rows(1, 1),
    "within": Within(6),
    "within self": Within(6, "self"),
    "interval": Interval(4, 7, lateness=3),
    "interval strict": Interval(3, 3, lateness=0),
    "interval before": Interval(9, -2, lateness=2),
    "interval after": Interval(-2, 9, lateness=2),
    "interval open": Interval(5, 0),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_windows_and_join_types(database, window, how):
    found = 0
    for seed in range(3):
        generator = random.Random(seed)
        arrivals = arrivals_of(generator, 70, small_key, window)
        found += check(database, arrivals, int_band(-1, 1), window, how)
    assert found > 10


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_windows_alone(database, window):
    """Every key matches, so that only the window decides."""
    generator = random.Random(11)
    arrivals = arrivals_of(generator, 60, lambda _: 0, window)
    assert check(database, arrivals, ANY_ROW, window) > 10


TYPE_ENDS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "UBIGINT": (0, 2**64 - 1),
}


@pytest.mark.parametrize("bounds", [(-3, 3), (1, 20), (-20, -1), (-1.5, 2.5), (0.25, 0.75), (0, 0)])
@pytest.mark.parametrize("sql_type", TYPE_ENDS)
def test_integer_bands_near_the_ends_of_the_type(database, sql_type, bounds):
    least, most = TYPE_ENDS[sql_type]

    def key(generator):
        distance = generator.randrange(12)
        return generator.choice((least + distance, most - distance, None))

    window = Rows(50, 50)
    arrivals = arrivals_of(random.Random(sql_type), 60, key, window)
    found = check(database, arrivals, int_band(*bounds, sql_type), window)
    assert (found == 0) == (bounds == (0.25, 0.75))


SPECIAL_FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, None)


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("bounds", [(-0.3, 0.3), (0.1, 0.3), (0.0, 0.0), (-1e30, 1e30)])
def test_float_bands_in_the_sum_form(database, kind, bounds):
    rounded = reference.to_float32 if kind == "float32" else float
    largest = 3.4028234663852886e38 if kind == "float32" else 1.7976931348623157e308

    def key(generator):
        if generator.random() < 0.3:
            return generator.choice((*SPECIAL_FLOATS, largest, -largest))
        return rounded(generator.randrange(-12, 12) / 10)

    window = Rows(60, 60)
    for seed in range(3):
        arrivals = arrivals_of(random.Random(seed), 100, key, window)
        assert check(database, arrivals, float_band(*bounds, kind), window, "full") > 50


@pytest.mark.parametrize("magnitude", [1.0, 2.0**23, 2.0**24, 2.0**25])
def test_float32_sums_at_every_spacing(database, magnitude):
    """Keys one spacing apart, bounds about half a spacing: rounding decides every pair."""
    on = float_band(-0.6, 0.6, "float32")

    def key(generator):
        return reference.to_float32(magnitude + generator.randrange(-4, 5) * magnitude * 2**-23)

    arrivals = arrivals_of(random.Random(7), 80, key, Rows(60, 60))
    assert check(database, arrivals, on, Rows(60, 60)) > 50


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize(
    ("name", "sql_type"),
    [
        *((name, sql_type) for name in COMPARISONS for sql_type in ("BIGINT", "DOUBLE")),
        *((name, sql_type) for name in ("equal", "not_equal") for sql_type in ("VARCHAR", "BLOB")),
    ],
)
def test_comparisons(database, name, sql_type, how):
    keys = {
        "BIGINT": (None, -(2**63), -1, 0, 1, 2**63 - 1),
        "DOUBLE": (*SPECIAL_FLOATS, 1.5, -1.5),
        "VARCHAR": (None, "", "a", "A", "ab", "ä", "a\x00"),
        "BLOB": (None, b"", b"a", b"A", b"ab", b"\x00", b"\xff"),
    }[sql_type]
    window = Rows(8, 8)
    arrivals = arrivals_of(random.Random(3), 60, lambda g: g.choice(keys), window)
    on = compared(name, COMPARISONS[name], sql_type)
    assert check(database, arrivals, on, window, how) > 10


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal"])
@pytest.mark.parametrize("sql_type", ["BIGINT", "DOUBLE", "FLOAT"])
@pytest.mark.parametrize("offset", [2, -3, 0.3, -2.5])
def test_comparisons_with_an_offset(database, name, sql_type, offset):
    rounded = {"BIGINT": int, "DOUBLE": float, "FLOAT": reference.to_float32}[sql_type]
    special = (None, -(2**63), 2**63 - 1) if sql_type == "BIGINT" else SPECIAL_FLOATS

    def key(generator):
        if generator.random() < 0.2:
            return generator.choice(special)
        return rounded(generator.randrange(-40, 40) / (1 if sql_type == "BIGINT" else 10))

    arrivals = arrivals_of(random.Random(5), 80, key, Rows(60, 60))
    on = compared(name, COMPARISONS[name], sql_type, offset)
    assert check(database, arrivals, on, Rows(60, 60), "full") > 50


@pytest.mark.parametrize("kind", ["int", "float64"])
def test_a_band_with_one_bound_is_a_comparison_with_an_offset(kind):
    keys = [-4, -1, 0, 2, 3, 7] if kind == "int" else [0.1, 0.3, 0.4, -0.2, math.inf, -math.inf]
    for bound in (3, 0.3, -0.3):
        for left in keys:
            for right in keys:
                both = reference.band(bound, None, kind), reference.less_equal(bound, kind)
                assert both[0](left, right) == both[1](left, right)
                both = reference.band(None, bound, kind), reference.greater_equal(bound, kind)
                assert both[0](left, right) == both[1](left, right)
    with pytest.raises(ValueError, match="band without bounds"):
        reference.band(None, None)


def test_union_of_bands(database):
    ranges = [(-5, -3), (-4, 0), (6, 8)]
    distance = "(r.k0 - l.k0)"
    sql = " OR ".join(f"{distance} BETWEEN {low} AND {high}" for low, high in ranges)
    on = On(reference.bands(ranges), sql, ("BIGINT",))
    for seed, how in enumerate(HOWS):
        arrivals = arrivals_of(random.Random(seed), 80, small_key, Rows(10, 10))
        assert check(database, arrivals, on, Rows(10, 10), how) > 0


@pytest.mark.parametrize("window", [Rows(9, 9), Within(9), Interval(9, 9, lateness=4)])
def test_conjunctions(database, window):
    on = On(
        reference.all_of(reference.equal(), reference.band(-2, 2), reference.not_equal()),
        "l.k0 = r.k0 AND r.k1 BETWEEN l.k1 - 2 AND l.k1 + 2 AND l.k2 <> r.k2 "
        "AND NOT isnan(l.k2) AND NOT isnan(r.k2)",
        ("VARCHAR", "BIGINT", "DOUBLE"),
    )

    def key(generator):
        return (
            generator.choice(("a", "b", None)),
            generator.choice((1, 2, 3, 4, 5, None)),
            generator.choice((0.5, 1.5, 2.5, 3.5, math.nan)),
        )

    for seed, how in enumerate(HOWS):
        arrivals = arrivals_of(random.Random(seed), 90, key, window)
        assert check(database, arrivals, on, window, how) > 0


@pytest.mark.parametrize("on", [int_band(-1, 1), int_band(1, 2), compared("less", "<", "BIGINT")])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_self_joins(database, window, on):
    arrivals = arrivals_of(random.Random(5), 60, small_key, window)
    load(database, arrivals, on, window, self_join=True)
    both_ways = f"SELECT l.pos AS a, r.pos AS b FROM l JOIN r ON ({on.sql}) AND {window_sql(window, LEFT)}"
    expected = database.execute(f"""
        WITH held AS ({both_ways})
        SELECT a, b FROM held
        WHERE a < b OR NOT EXISTS (FROM held AS other WHERE other.a = held.b AND other.b = held.a)
        ORDER BY greatest(a, b), least(a, b)
    """).fetchall()
    results = reference.join(arrivals, on.matches, window, self_join=True)
    assert [pair for chunk in results for pair in chunk] == expected
    assert len(expected) > 5
