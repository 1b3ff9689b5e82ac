"""The join of two tables: the same as the reference's and DuckDB's, in one order, however many workers."""

import functools
import itertools
import operator
import os
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.test_window_join_duckdb import by_duckdb
from window_cases import HOWS, KINDS, ONE_HASH, ONLY, Condition, Row, Spec, expected, id_pairs, scripts

import slidejoin as sj
from slidejoin import _core, column_store, isa, table_join
from slidejoin.errors import CapacityError, SchemaError, SpecError
from slidejoin.native import native_pairs
from slidejoin.reference import Rows
from slidejoin.result import RowStore

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
ALL = Rows(2**30, 2**30)


@pytest.fixture(scope="module")
def database():
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture(autouse=True)
def every_worker_works(monkeypatch):
    """Threads are started for tables of a few rows, too."""
    monkeypatch.setattr(table_join, "LEAST_SHARE", 1)


def sides(spec, rows):
    """Both tables; a row's id is its number among all."""
    made = []
    for side in (0, 1):
        numbers = [number for number, row in enumerate(rows) if row.side == side]
        made.append(spec.table(side, [rows[number] for number in numbers], numbers))
    return made


def condition_of(spec):
    names = zip(spec.on, spec.names(0), spec.names(1), strict=False)
    return functools.reduce(operator.and_, (part.predicate(left, right) for part, left, right in names))


def found_by_join(spec, rows, **options):
    left, right = sides(spec, rows)
    return id_pairs(spec, sj.join(left, right, condition_of(spec), spec.how, **options))


def in_order(pairs):
    """As results of a join of tables come: left rows in order, then the right rows without a partner."""
    return sorted(
        pairs, key=lambda pair: tuple((number is None, number or 0) for number in (pair[0], pair[1]))
    )


def from_reference(spec, rows):
    return in_order(itertools.chain(*expected(spec, rows)[0]))


def from_duckdb(database, spec, rows):
    """The outer, semi and anti joins of DuckDB over the pairs that its own conditions give."""
    left, right = by_duckdb(database, spec, rows)[0]
    database.register("pairs", pa.table({"lid": left, "rid": right}))
    queries = {
        "inner": "SELECT lid, rid FROM pairs",
        "left": "SELECT a.lid, p.rid FROM all_l a LEFT JOIN pairs p USING (lid)",
        "right": "SELECT p.lid, b.rid FROM pairs p RIGHT JOIN all_r b USING (rid)",
        "full": "SELECT a.lid, b.rid FROM all_l a LEFT JOIN pairs p ON a.lid = p.lid "
        "FULL JOIN all_r b ON p.rid = b.rid",
        "left_semi": "SELECT lid, NULL FROM all_l SEMI JOIN pairs USING (lid)",
        "left_anti": "SELECT lid, NULL FROM all_l ANTI JOIN pairs USING (lid)",
        "right_semi": "SELECT NULL, rid FROM all_r SEMI JOIN pairs USING (rid)",
        "right_anti": "SELECT NULL, rid FROM all_r ANTI JOIN pairs USING (rid)",
    }
    return in_order(database.execute(queries[spec.how]).fetchall())


BASE = Spec(on=(Condition("equal", "string"),), window=ALL)
# Kinds whose sums DuckDB computes as we do, however great the bounds.
IN_SQL = tuple(name for name in KINDS if name not in ("duration", "decimal", "decimals"))


def table_scripts(**options):
    """A condition and a join type, and the rows of both tables."""
    drawn = scripts(windows_of=("rows",), self_joins=False, hows=HOWS, max_size=40, **options)
    return drawn.map(lambda script: (replace(script[0], window=ALL), script[1]))


@settings(max_examples=3000 if LONG else 150, deadline=None)
@given(script=table_scripts(), workers=st.sampled_from((1, 2, 3)), level=st.sampled_from(_core.levels()))
def test_the_reference_agrees(script, workers, level):
    spec, rows = script
    with isa.use(level):
        assert found_by_join(spec, rows, workers=workers) == from_reference(spec, rows)


@settings(max_examples=600 if LONG else 40, deadline=None)
@given(script=table_scripts(kinds=IN_SQL))
def test_duckdb_and_the_reference_agree(database, script):
    spec, rows = script
    spec = replace(spec, one_name=False)
    found = found_by_join(spec, rows)
    assert found == from_reference(spec, rows)
    assert found == from_duckdb(database, spec, rows)


# --- Many rows: several buckets, blocks, vectors and threads ---

MANY = 400_000 if LONG else 60_000
KEYS = {
    "uniform": lambda random, n: random.integers(0, 20 * n, n),
    "sorted": lambda random, n: np.sort(random.integers(0, 20 * n, n)),
    "skewed": lambda random, n: np.exp(random.uniform(9, 40, n)).astype(np.int64),
    "an outlier": lambda random, n: np.append(random.integers(0, 20 * n, n - 1), 2**63 - 1),
}
TYPES = {"int32": ("uniform", "sorted"), "int64": tuple(KEYS), "float64": ("uniform", "skewed")}

ON = {
    "band": (sj.band("key", lower=-20, upper=30), "r.k >= l.k - 20 AND r.k <= l.k + 30"),
    "equal": (sj.equal("key"), "r.k = l.k"),
    "bands": (
        sj.bands("key", ranges=[(-9, -5), (4, 30)]),
        "((r.k >= l.k - 9 AND r.k <= l.k - 5) OR (r.k >= l.k + 4 AND r.k <= l.k + 30)) "
        "AND r.k >= l.k - 9 AND r.k <= l.k + 30",
    ),
    "equal and band": (
        sj.equal("group") & sj.band("key", within=600),
        "r.group = l.group AND r.k >= l.k - 600 AND r.k <= l.k + 600",
    ),
    "band and not equal": (
        sj.band("key", within=100) & sj.not_equal("group"),
        "r.k >= l.k - 100 AND r.k <= l.k + 100 AND l.group <> r.group",
    ),
}


def many(seed, keys, type_, n):
    random = np.random.default_rng(seed)
    key = pa.array(KEYS[keys](random, n), mask=random.random(n) < 0.01).cast(type_, safe=False)
    return pa.table({"id": np.arange(n), "key": key, "group": random.integers(0, 50, n).astype(np.int16)})


@pytest.mark.parametrize("name", ON)
@pytest.mark.parametrize(
    ("type_", "keys"), [(type_, keys) for type_, every in TYPES.items() for keys in every]
)
def test_many_rows(database, name, type_, keys):
    on, sql = ON[name]
    left, right = many(1, keys, type_, MANY), many(2, keys, type_, MANY // 2)
    one, two, three = (sj.join(left, right, on, workers=workers) for workers in (1, 2, 3))
    assert two.equals(one)
    assert three.equals(one)
    wide = "DOUBLE" if type_ == "float64" else "HUGEINT"
    for side, table in (("l", left), ("r", right)):
        database.register(f"{side}_rows", table)
        database.execute(
            f'CREATE OR REPLACE TEMP TABLE {side} AS SELECT id, CAST(key AS {wide}) AS k, "group" '
            f"FROM {side}_rows WHERE key IS NOT NULL"
        )
    sql = sql.replace("r.group", 'r."group"').replace("l.group", 'l."group"')
    wanted = database.execute(f"SELECT l.id, r.id FROM l JOIN r ON {sql} ORDER BY 1, 2").fetchnumpy()
    assert len(one) > 100
    for mine, theirs in zip(("id", "id_right"), wanted.values(), strict=True):
        np.testing.assert_array_equal(one[mine], theirs)


@pytest.mark.parametrize("how", ["inner", "full", "left_semi", "right_anti"])
@pytest.mark.parametrize("name", ["band", "not equal", "group and band"])
def test_a_hot_key_is_shared_by_all_workers(name, how, monkeypatch):
    monkeypatch.setattr(table_join, "LEAST_SHARE", 64)
    random = np.random.default_rng(4)
    tables = []
    for size in (3000, 400):
        key = random.integers(0, 10**6, size)
        key[random.random(size) < 0.4] = 5000
        key[:3] = 2**62
        text = pa.array(random.integers(0, 9, size).astype(str))
        columns = {"id": np.arange(size), "key": key, "group": text, "flag": pa.array(key % 3 == 0)}
        tables.append(pa.concat_tables([pa.table(columns).slice(0, 90), pa.table(columns).slice(90)]))
    on = {
        "band": sj.band("key", within=20),
        "not equal": sj.not_equal("key") & sj.equal("id"),
        "group and band": sj.equal("group") & sj.band("key", within=20) & sj.less("id"),
    }[name]
    one = sj.join(*tables, on, how)
    assert one.num_rows > 50
    for workers in (2, 3, 16):
        assert sj.join(*tables, on, how, workers=workers).equals(one)


# --- What the arguments may be ---


def test_whatever_speaks_arrow():
    left, right = {"id": [1, 2, 3], "x": [1.0, None, 7.5]}, {"name": ["a", "b"], "x": [1.25, 7.0]}
    wanted = [
        {"id": 1, "x": 1.0, "name": "a", "x_right": 1.25},
        {"id": 3, "x": 7.5, "name": "b", "x_right": 7.0},
    ]
    on = sj.band("x", within=0.5)
    for make in (dict, pa.table, lambda data: pa.table(data).to_pandas(), pl.DataFrame):
        assert sj.join(make(left), make(right), on).to_pylist() == wanted
    chunked = pa.concat_tables([pa.table(right).slice(i, 1) for i in range(2)])
    assert sj.join(pa.table(left).to_reader(), chunked, on).to_pylist() == wanted
    sliced = pa.concat_tables([pa.table({"id": [0], "x": [9.0]}), pa.table(left)]).combine_chunks().slice(1)
    assert sj.join(sliced, right, on).to_pylist() == wanted


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("sizes", [(0, 0), (0, 2), (2, 0)])
def test_empty_tables(how, sizes):
    tables = [
        pa.table({"x": pa.array(range(size), pa.int32()), "text": pa.array(["a"] * size, pa.string())})
        for size in sizes
    ]
    for on in (sj.band("x", within=1), sj.not_equal("x"), sj.equal("text") & sj.less("x")):
        found = sj.join(*tables, on, how, workers=2)
        names = ["x", "text"] if how in ONLY else ["x", "text", "x_right", "text_right"]
        assert found.column_names == names
        kept = {"left": sizes[0], "right": sizes[1], "full": sum(sizes)}
        kept |= {"left_anti": sizes[0], "right_anti": sizes[1]}
        assert found.num_rows == kept.get(how, 0)


def test_columns_of_any_type_come_along():
    values = {
        "x": [1, 2],
        "list": [[1], None],
        "struct": [{"a": 1}, {"a": None}],
        "flag": [True, None],
        "decimal": pa.array(["1.5", None]).cast(pa.decimal128(9, 2)),
        "category": pa.array(["u", None]).dictionary_encode(),
        "bytes": [b"z", b""],
    }
    table = pa.table(values)
    found = sj.join(table, {"y": [2, 2, 5]}, sj.equal("x", "y"), "full")
    wanted = [table.slice(0, 1).to_pylist()[0] | {"y": None}] + [table.slice(1).to_pylist()[0] | {"y": 2}] * 2
    assert found.to_pylist() == [*wanted, dict.fromkeys(table.column_names) | {"y": 5}]


def texts_and_numbers(seed, size):
    random = np.random.default_rng(seed)
    text = pa.array(random.integers(0, 10**6, size).astype(str), mask=random.random(size) < 0.1)
    return pa.table({"id": np.arange(size), "x": random.integers(0, size, size), "text": text})


@pytest.mark.parametrize(
    ("how", "more", "columns", "stored"),
    [
        ("inner", {}, None, False),
        ("left", {}, None, True),
        ("inner", {"list": [[1]] * 1000}, None, True),  # the core cannot take it
        ("inner", {"list": [[1]] * 1000}, ["id", "id_right"], False),
        ("inner", {"x": [5] * 1000}, None, True),  # some rows have very many partners
    ],
)
def test_pairs_are_in_memory_only_where_they_must_be(how, more, columns, stored, monkeypatch):
    seen = []

    def taken(result, tables, numbers, *rest):
        seen.extend(numbers)
        return table_join_taken(result, tables, numbers, *rest)

    table_join_taken = table_join.taken
    monkeypatch.setattr(table_join, "taken", taken)
    left = texts_and_numbers(1, 1000)
    right = pa.table({**dict(zip(left.column_names, left.columns, strict=True)), **more})
    found = sj.join(left, right, sj.band("x", within=1), how, columns=columns)
    assert {type(rows) for rows in seen} == {np.ndarray if stored else _core.NativePairRows}
    assert [len(rows) for rows in seen] == [found.num_rows] * 2


@pytest.mark.parametrize("workers", [1, 3])
def test_texts_that_need_several_arrays(workers, monkeypatch):
    left, right, on = texts_and_numbers(1, 9000), texts_and_numbers(2, 5000), sj.band("x", within=1)
    whole = sj.join(left, right, on)
    monkeypatch.setattr(column_store, "MAX_BYTES", 9000)
    found = sj.join(left, right, on, workers=workers)
    assert found["text"].num_chunks > 3
    assert found.combine_chunks().equals(whole.combine_chunks())
    for columns in (["text_right"], ["x"], ["id_right", "text"]):
        some = sj.join(left, right, on, workers=workers, columns=columns)
        assert some.combine_chunks().equals(whole.select(columns).combine_chunks())


def test_rows_of_different_pairs_are_refused():
    table = texts_and_numbers(1, 100)
    store = RowStore(table.schema)
    store.append(table)
    (one, other), (third, _) = [
        native_pairs(
            [("int64", [(("sum", -reach), ("sum", reach))])],
            [[(table["x"].to_numpy(), None)]] * 2,
            equalities=0,
            banded="conjunct",
            flags_of=None,
            workers=1,
            share=1,
            limit=10**6,
            blocks=True,
        )
        for reach in (1, 2)
    ]
    taken = store.take(one[3:90])
    assert taken[0].equals(store.take(one)[0].slice(3, 87))
    for rows in (third, one[1:], other[:-1], np.arange(len(one))):
        with pytest.raises(TypeError, match="rows of different pairs"):
            store.native.take(one, 10**6, store.native, rows)


def test_errors_are_those_of_window_join():
    left, right = pa.table({"x": [1], "s": ["a"]}), pa.table({"x": [1.5], "s": ["a"]})
    with pytest.raises(SchemaError, match=r"left has no column 'y'; it has 'x', 's'"):
        sj.join(left, right, sj.equal("y", "x"))
    with pytest.raises(SchemaError, match="integer with float; cast one of them"):
        sj.join(left, right, sj.equal("x"))
    with pytest.raises(SchemaError, match="text and binary have no order here"):
        sj.join(left, right, sj.less("s"))
    with pytest.raises(SchemaError, match="two columns 's_right'"):
        sj.join(left, {"y": [1], "s": ["a"], "s_right": ["b"]}, sj.equal("x", "y"), suffixes=("_right", "x"))
    with pytest.raises(SpecError, match="how='cross'; expected one of inner, left"):
        sj.join(left, right, sj.equal("s"), "cross")
    with pytest.raises(SpecError, match="expected a predicate"):
        sj.join(left, right, "x")
    for wrong in (0, -1, True, 1.5, None):
        with pytest.raises(SpecError, match=r"workers=.*; expected a whole number, 1 at least"):
            sj.join(left, right, sj.equal("s"), workers=wrong)
    with pytest.raises(SpecError, match="limit=0"):
        sj.join(left, right, sj.equal("s"), limit=0)
    with pytest.raises(SchemaError, match="left is a list"):
        sj.join([1], right, sj.equal("s"))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    "on",
    [sj.greater_equal("x", "y"), sj.not_equal("x", "y"), sj.less("x", "y") & sj.less("y", "x")],
    ids=repr,
)
def test_a_result_beyond_the_limit_is_refused(on, workers):
    left, right = {"x": range(100), "y": [300] * 100}, {"y": [-1] * 90 + [500] * 10, "x": [400] * 100}
    rows = sj.join(left, right, on).num_rows
    assert sj.join(left, right, on, limit=rows, workers=workers).num_rows == rows
    with pytest.raises(CapacityError, match=f"more than {rows - 1} rows, the limit that was set"):
        sj.join(left, right, on, limit=rows - 1, workers=workers)


def test_a_product_of_large_tables_is_refused_before_memory_is_spent():
    many = pa.table({"x": np.zeros(3_000_000, np.int32)})
    with pytest.raises(CapacityError, match="which is what the memory of this machine holds"):
        sj.join(many, many, sj.equal("x"))
    assert sj.join(many, many, sj.equal("x"), "left_semi").num_rows == 3_000_000


def test_tables_that_are_too_long_are_refused():
    table_join.check_rows("left", 2**32 - 1)
    with pytest.raises(CapacityError, match=r"right has 4294967296 rows; join\(\) takes up to 4294967295"):
        table_join.check_rows("right", 2**32)


def test_equal_hashes_of_texts_are_compared():
    a, b = ONE_HASH[0]
    spec_rows = [Row(side, (text,), None) for side, text in ((0, a), (0, b), (1, b), (1, "c"), (0, None))]
    for op, how in itertools.product(("equal", "not_equal"), HOWS):
        spec = replace(BASE, on=(Condition(op, "string"),), how=how)
        assert found_by_join(spec, spec_rows) == from_reference(spec, spec_rows)


def test_semi_joins_stop_at_the_first_partner():
    """Each row has 200,000 candidates: testing them all would take minutes."""
    count = 200_000
    left = pa.table({"s": ["a"] * count, "x": np.zeros(count, np.int64)})
    right = pa.table({"s": ["a"] * count, "x": np.arange(count) + 1})
    on = sj.equal("s") & sj.less("x")
    assert sj.join(left, right, on, "left_semi").equals(left)
    assert sj.join(left, right, on, "right_semi").equals(right)


def test_keys_without_a_type_are_refused_with_a_cure():
    with pytest.raises(sj.SchemaError, match="give the column one"):
        sj.join({"x": []}, {"x": [None]}, sj.band("x", within=1))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("rows", [0, 2])
def test_keys_without_a_type_get_that_of_their_partners(how, rows):
    bare, typed = {"x": [None] * rows}, {"x": [1.5, None]}
    plain = pa.table({"x": pa.array([None] * rows, pa.float64())})
    on = sj.band("x", within=1)
    assert sj.join(bare, typed, on, how).equals(sj.join(plain, typed, on, how))
    assert sj.join(typed, bare, on, how).equals(sj.join(typed, plain, on, how))
    with pytest.raises(SchemaError, match="keys of type null"):
        sj.join(bare, bare, on, how)


def test_more_workers_than_any_machine_has():
    table = {"x": [1, 2]}
    assert sj.join(table, table, sj.equal("x"), workers=2**70).num_rows == 2
