"""Everything that speaks Arrow comes in; a side keeps its columns; interleaved batches come apart."""

import datetime as dt
import doctest
import sys
import types
import warnings
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin import SchemaError, source
from slidejoin.source import Side, split_arrivals, to_table

TABLE = pa.table({"id": [1, 2], "name": ["a", None]})


class Stream:
    """Nothing but the C stream of a table."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class Struct:
    """Nothing but the C array of a batch."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._array.__arrow_c_array__(requested_schema)


def test_examples_run() -> None:
    assert doctest.testmod(source).failed == 0


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        TABLE.to_pandas(),
        TABLE.to_pandas().set_index(pd.Index([7, 9])),
        pl.from_arrow(TABLE),
        Stream(TABLE),
        Struct(TABLE.to_batches()[0]),
        Struct(pa.array(TABLE.to_pylist())),
        {"id": np.array([1, 2]), "name": ["a", None]},
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_whatever_speaks_arrow_is_a_table(data: Any) -> None:
    table = to_table(data, "left")
    assert isinstance(table, pa.Table)
    assert table.to_pylist() == TABLE.to_pylist()


def test_duckdb_relations_and_results() -> None:
    with duckdb.connect() as connection:
        query = "SELECT * FROM (VALUES (1::BIGINT, 'a'), (2, NULL)) t(id, name) ORDER BY id"
        assert to_table(connection.sql(query)).to_pylist() == TABLE.to_pylist()
        result = connection.execute(query)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # DuckDB advises to use relations
            assert to_table(result).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        "rows",
        [1, 2],
        np.zeros((2, 2)),
        pa.array([1, 2]),
        pa.chunked_array([[1, 2]]),
        pl.Series([1]),
        {"a": [1], "b": [1, 2]},
        {"a": np.zeros((2, 2))},
        pd.DataFrame({"a": [1, "x"]}),
        Struct(pa.array([1])),
        Struct(pa.array([{"a": 1}, None])),
    ],
    ids=lambda data: type(data).__name__,
)
def test_anything_else_is_refused(data: Any) -> None:
    with pytest.raises(SchemaError, match=r"(?s)left is a .*expected a pyarrow Table"):
        to_table(data, "left")


@pytest.mark.parametrize(
    "value",
    ["abc", np.str_("ab"), b"abc", bytearray(b"ab"), 1, 2.5, None, np.float64(3), pa.scalar(1), {"x": 1},
     pd.Timestamp(0), Decimal(1)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_single_value_is_not_a_column(value: Any) -> None:
    says = f"left column 'b' is {value!r}, a single value; expected a list or an array, such as [{value!r}]"
    with pytest.raises(SchemaError) as error:
        to_table({"a": [1], "b": value}, "left")
    assert says in str(error.value)


@pytest.mark.parametrize(
    "values",
    [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), pd.Series([1, 2]), pl.Series([1, 2]), pa.array([1, 2]),
     pa.chunked_array([[1], [2]]), iter([1, 2])],
    ids=lambda values: f"{type(values).__module__}.{type(values).__name__}",
)  # fmt: skip
def test_columns_in_any_form(values: Any) -> None:
    assert to_table({"a": values}).to_pydict() == {"a": [1, 2]}


@pytest.mark.parametrize(
    "empty",
    [[], (), pd.DataFrame(), pl.DataFrame(), pa.table({})],
    ids=lambda empty: f"{type(empty).__module__}.{type(empty).__name__}",
)
def test_a_batch_without_rows_and_columns_is_empty(empty: Any) -> None:
    side = fixed([("a", pa.int8()), ("b", pa.string())])
    assert side.check(empty).equals(side.schema.empty_table())
    assert Side("left", needs={"a": "equal('a') names it"}).check(empty).num_columns == 0
    rows = {"a": [1], "ts": [1]}
    for known in (False, True):
        join = sj.WindowJoin(sj.equal("a"), sj.within(5, time="ts"))
        if known:
            join.push(left=rows)
        assert join.push(left=empty).num_rows == 0
        assert join.push(arrivals=empty).num_rows == 0
        join.push(left=rows)
        assert join.push(right=rows).num_rows == 1 + known
    with pytest.raises(SchemaError, match="left has no column 'a'; it has none"):
        Side("left", needs={"a": "equal('a') names it"}).check(pd.DataFrame(index=[1, 2]))


def test_a_wide_table_is_not_listed_whole() -> None:
    wide = {f"c{i:03}": [i] for i in range(300)}
    shown = ", ".join(f"'c{i:03}'" for i in range(12)) + " and 288 more"
    join = sj.WindowJoin(sj.equal("c290x"), 5)
    for call in (
        lambda: join.push(left=wide),
        lambda: sj.WindowJoin(sj.equal("c290x"), 5, schemas=(pa.table(wide).schema,) * 2),
    ):
        with pytest.raises(SchemaError) as error:
            call()
        assert f"left has no column 'c290x'; it has {shown}; equal('c290x')" in str(error.value)
        assert str(error.value).endswith("; did you mean 'c290'?")
    with pytest.raises(SchemaError, match=rf"they have {shown}, name it"):
        join.push(arrivals=wide)
    with pytest.raises(SchemaError, match=rf"new column 'c'; the first batch had {shown}, leave it out"):
        Side("left", pa.table(wide).schema).check(wide | {"c": [1]})
    schema = pa.table(wide).schema
    with pytest.raises(SchemaError, match=rf"neither side has; left has {shown}, right has {shown}"):
        split_arrivals(pa.table({"side": [0], "x": [1]}), "side", schema, schema)


def test_refusals_help() -> None:
    with pytest.raises(SchemaError, match=r"LazyFrame; call \.collect\(\) on it; expected"):
        to_table(pl.LazyFrame({"a": [1]}), "left")
    for twice in (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
    ):
        with pytest.raises(SchemaError, match="left has two columns 'a'; rename one"):
            Side("left").check(twice)


def test_lists_of_dicts_have_the_columns_of_all_their_rows() -> None:
    table = to_table([{"a": 1}, {"b": "x", "a": None}, {}], "left")
    assert table.to_pydict() == {"a": [1, None, None], "b": [None, "x", None]}
    assert table.schema.types == [pa.int64(), pa.string()]
    with pytest.raises(SchemaError, match=r"left column 'a' cannot be read .*one type that Arrow has"):
        to_table([{"a": 1}, {"a": "x"}], "left")
    side = fixed([("a", pa.int8()), ("b", pa.string())])
    assert side.check([{"a": 1, "b": "x"}]).schema == side.schema
    assert side.check([]).schema == side.schema
    with pytest.raises(SchemaError, match="left has no column 'a'; it has none"):
        sj.join([], {"a": [1]}, sj.equal("a"))


def test_the_first_batch_must_have_the_columns_that_are_read() -> None:
    side = Side("left", needs={"price": "equal('price') names it", "ts": "within(1, time='ts') names it"})
    says = (
        r"left has no column 'price'; it has 'prcie', 'ts'; equal\('price'\) names it; did you mean 'prcie'\?"
    )
    with pytest.raises(SchemaError, match=says):
        side.check({"prcie": [1.0], "ts": [1]})
    assert side.check({"ts": [1], "other": [2], "price": [1.0]}).column_names == ["ts", "other", "price"]


@pytest.mark.parametrize("index", ["ts", ["ts", "other"]])
def test_a_column_in_the_index_of_a_frame_is_named(index: Any) -> None:
    frame = pd.DataFrame({"ts": [1], "other": [2], "price": [1.0]}).set_index(index)
    says = r"has no column 'ts'; it has .*'price'.*; 'ts' is the index of the DataFrame, call reset_index\(\)"
    with pytest.raises(SchemaError, match=says):
        Side("left", needs={"price": "a names it", "ts": "b names it"}).check(frame)
    with pytest.raises(SchemaError, match=says):
        fixed([("price", pa.float64()), ("ts", pa.int64())]).check(frame)


def test_integers_then_floats_are_refused_with_a_cure() -> None:
    with pytest.raises(SchemaError, match=r"cast the column to double in the first batch, or .* schemas="):
        fixed([("a", pa.int64())]).check({"a": [1.5]})


def fixed(schema: Any) -> Side:
    return Side("left", pa.schema(schema))


def test_first_batch_fixes_the_columns_once_it_is_accepted() -> None:
    side = Side("left")
    table = side.check(pd.DataFrame({"a": [1], "b": ["x"]}))
    assert side.schema is None
    assert table.schema.metadata is None
    side.fix(table.schema)
    assert side.schema == table.schema
    side.fix(pa.schema([("other", pa.int8())]))
    assert side.schema == table.schema
    again = side.check(table)
    assert again is table


def test_columns_may_come_in_another_order() -> None:
    side = fixed([("a", pa.int64()), ("b", pa.string())])
    assert side.check({"b": ["x"], "a": [1]}).column_names == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": [1]}, r"left has no column 'b'; it has 'a'"),
        ({}, r"left has no column 'a'; it has none"),
        ({"a": [1], "b": ["x"], "c": [1]}, r"left has a new column 'c'; the first batch had 'a', 'b'"),
        ({"a": ["x"], "b": ["x"]}, r"left column 'a' has type string, expected int64"),
        ({"a": [1], "b": [1]}, r"left column 'b' has type int64, expected string"),
        ({"a": [1.5], "b": ["x"]}, r"left column 'a' has type double, expected int64, and not every value"),
        ({"a": [True], "b": ["x"]}, r"left column 'a' has type bool, expected int64"),
        ({"a": [1], "b": [b"x"]}, r"left column 'b' has type binary, expected string"),
    ],
)
def test_other_columns_are_refused(data: dict[str, Any], message: str) -> None:
    side = fixed([("a", pa.int64()), ("b", pa.string())])
    before = side.schema
    with pytest.raises(SchemaError, match=message):
        side.check(data)
    assert side.schema is before


TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
ENCODED = [
    pa.dictionary(index, text) for text in TEXTS for index in (pa.int8(), pa.int32(), pa.uint32(), pa.int64())
]


def as_type(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(type_):
        encoded = pa.array(values).dictionary_encode()
        indices, dictionary = (
            encoded.indices.cast(type_.index_type),
            encoded.dictionary.cast(type_.value_type),
        )
        return pa.DictionaryArray.from_arrays(indices, dictionary)
    return pa.array(values, type_)


@pytest.mark.parametrize("came", TEXTS + ENCODED, ids=str)
@pytest.mark.parametrize("expected", TEXTS + ENCODED, ids=str)
def test_texts_in_any_form(came: pa.DataType, expected: pa.DataType) -> None:
    side = fixed([("t", expected)])
    values = ["b", None, "a" * 40, "b"]
    table = side.check(pa.table({"t": as_type(values, came)}))
    assert table.schema == side.schema
    assert table["t"].to_pylist() == values


D = Decimal
UTC, BERLIN = pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")


@pytest.mark.parametrize(
    ("came", "value", "expected"),
    [
        (pa.int32(), 7, pa.int64()),
        (pa.int64(), 7, pa.int8()),
        (pa.uint64(), 7, pa.int64()),
        (pa.float64(), 7.0, pa.int64()),
        (pa.int64(), 2**53, pa.float64()),
        (pa.float32(), 0.5, pa.float64()),
        (pa.timestamp("s"), dt.datetime(2024, 1, 1), pa.timestamp("ns")),
        (pa.timestamp("ns"), dt.datetime(2024, 1, 1), pa.timestamp("s")),
        (pa.timestamp("ns", "UTC"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), UTC),
        (pa.date64(), dt.date(2024, 1, 1), pa.date32()),
        (pa.time32("s"), dt.time(1), pa.time64("us")),
        (pa.duration("s"), dt.timedelta(1), pa.duration("ns")),
        (pa.decimal128(10, 2), D("1.50"), pa.decimal128(12, 4)),
        (pa.binary(), b"x", pa.large_binary()),
        (pa.list_(pa.int32()), [1, None], pa.large_list(pa.int64())),
        (pa.list_(pa.null()), [None], pa.list_(pa.string())),
        (pa.struct([("x", pa.int8())]), {"x": 1}, pa.struct([("x", pa.int64())])),
        (pa.float64(), None, pa.string()),
        (pa.null(), None, pa.list_(pa.int8())),
        (pa.null(), None, pa.uuid()),
    ],
    ids=str,
)
def test_types_that_say_the_same_are_cast(came: pa.DataType, value: Any, expected: pa.DataType) -> None:
    table = fixed([("x", expected)]).check(pa.table({"x": pa.array([None, value], came)}))
    assert table.schema.types == [expected]
    assert table["x"].to_pylist() == [None, value]


@pytest.mark.parametrize(
    ("came", "value", "expected"),
    [
        (pa.int64(), 300, pa.int8()),
        (pa.int64(), 2**53 + 1, pa.float64()),
        (pa.float64(), float("nan"), pa.int64()),
        (pa.float64(), 0.5, pa.float32()),
        (pa.timestamp("ns"), 1, pa.timestamp("us")),
        (pa.timestamp("s"), 2**62, pa.timestamp("ns")),
        (pa.timestamp("us"), 1, UTC),
        (UTC, 1, pa.timestamp("us")),
        (UTC, 1, BERLIN),
        (pa.decimal128(10, 2), D("1.25"), pa.decimal128(10, 1)),
        (pa.date32(), dt.date(2024, 1, 1), pa.timestamp("us")),
        (pa.int64(), 1, pa.string()),
        (pa.int64(), 1, pa.bool_()),
        (pa.int64(), 1, pa.timestamp("us")),
        (pa.int64(), 1, pa.null()),
        (pa.string(), "x", pa.dictionary(pa.int32(), pa.int64())),
        (pa.struct([("x", pa.int8())]), {"x": 1}, pa.struct([("y", pa.int8())])),
        (pa.list_(pa.string()), ["x"], pa.list_(pa.int8())),
        (pa.list_(pa.int8()), [1], pa.list_(pa.int8(), 1)),
    ],
    ids=str,
)
def test_types_that_do_not_are_refused(came: pa.DataType, value: Any, expected: pa.DataType) -> None:
    side = fixed([("x", expected)])
    with pytest.raises(SchemaError) as caught:
        side.check(pa.table({"x": pa.array([value], came)}))
    assert f"left column 'x' has type {came}, expected {expected}" in str(caught.value)


def test_pandas_batches_of_one_source_agree() -> None:
    side = Side("left")
    first = side.check(pd.DataFrame({"c": pd.Categorical(["a"]), "n": [1], "s": ["x"]}))
    side.fix(first.schema)
    assert first["c"].type == pa.dictionary(pa.int32(), pa.string())
    many = [str(i) for i in range(300)]  # 16-bit codes
    for frame in (
        pd.DataFrame({"c": pd.Categorical(many), "n": range(300), "s": many}),
        pd.DataFrame({"c": ["b", None], "n": [5.0, None], "s": [None, None]}),
        pd.DataFrame({"c": pd.Categorical([None]), "n": [None], "s": [None]}),
        pd.DataFrame({"c": [], "n": [], "s": []}),
    ):
        assert side.check(frame).schema == first.schema


def test_polars_categories_and_enums_survive() -> None:
    frame = pl.DataFrame({"c": ["x", None], "e": ["a", "b"]}).cast(
        {"c": pl.Categorical, "e": pl.Enum(["a", "b"])}
    )
    back = pl.from_arrow(Side("left").check(frame))
    assert isinstance(back, pl.DataFrame)
    assert back.schema == frame.schema
    assert back.rows() == frame.rows()


def test_not_null_columns_and_empty_tables() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)], metadata={"k": "v"})
    side = Side("left")
    table = side.check(pa.table({"a": [1]}, schema=schema))
    side.fix(table.schema)
    assert table.schema == pa.schema([("a", pa.int64())])
    assert side.check(schema.empty_table()).num_rows == 0
    bare = Side("left")
    bare.fix(pa.schema([]))
    assert bare.check(TABLE.select([])).num_rows == 2
    with pytest.raises(SchemaError, match="has a new column 'id'; the first batch had none"):
        bare.check(TABLE)


def test_a_column_without_values_at_first_cannot_get_them_later() -> None:
    side = fixed([("x", pa.null())])
    assert side.check({"x": [None, None]}).num_rows == 2
    assert side.check(pa.table({"x": pa.nulls(2, pa.int8())})).schema == side.schema
    with pytest.raises(SchemaError, match=r"the first batch had no value in it.*cast it to int64 there"):
        side.check({"x": [1]})


SIDES = ["left", "right", "right", "left", "right"]
BITS = np.array([0, 1, 1, 0, 1], np.uint8)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(SIDES),
        pa.array(SIDES, pa.large_string()),
        pa.array(SIDES, pa.string_view()),
        pa.array(SIDES).dictionary_encode(),
        as_type(SIDES, pa.dictionary(pa.uint32(), pa.string_view())),
        pa.array(BITS),
        pa.array(BITS).cast(pa.int64()),
        pa.array(BITS).cast(pa.uint64()),
        pa.array(BITS).dictionary_encode(),
        pa.array(BITS.astype(bool)),
        pa.chunked_array([SIDES[:2], SIDES[2:]]),
    ],
    ids=lambda column: str(column.type),
)
def test_arrivals_come_apart_in_order(column: Any) -> None:
    views = pa.array(["a" * 20, "b", None, "d", "e"], pa.string_view())
    runs = pa.compute.run_end_encode(pa.array([1, 1, 2, 2, 2]))
    nested = pa.array([["a"], None, ["b"], [], ["c"]], pa.list_(pa.string_view()))
    table = pa.table({"x": [10, 20, 30, 40, 50], "side": column, "v": views, "r": runs, "n": nested})
    sides, left, right = split_arrivals(table, "side")
    assert sides.dtype == np.uint8
    assert sides.tolist() == BITS.tolist()
    assert left.schema == right.schema == table.drop_columns(["side"]).schema
    rows = table.drop_columns(["side"]).to_pylist()
    assert left.to_pylist() == [rows[0], rows[3]]
    assert right.to_pylist() == [rows[1], rows[2], rows[4]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["left", "middle"], "'side' is 'middle' in row 1; expected 'left' or 'right'"),
        (["left", None], "'side' is None in row 1; expected 'left' or 'right'"),
        (["LEFT"], "'side' is 'LEFT' in row 0"),
        ([0, 1, 2], "'side' is 2 in row 2; expected 0 or 1"),
        ([0, -1], "'side' is -1 in row 1"),
        ([1, None], "'side' is None in row 1; expected 0 or 1"),
        ([True, None], "'side' is None in row 1"),
        ([0.0], "'side' has type double; expected 'left' and 'right', or 0 and 1"),
        ([None], "'side' has type null; expected 'left' and 'right', or 0 and 1"),
        ([[0]], "'side' has type list"),
    ],
)
def test_unclear_sides_are_refused(values: list[Any], message: str) -> None:
    for column in (
        pa.array(values),
        pa.chunked_array([pa.array(values).slice(i, 1) for i in range(len(values))]),
    ):
        with pytest.raises(SchemaError, match=message):
            split_arrivals(pa.table({"side": column}), "side")


def test_unclear_columns_are_refused() -> None:
    with pytest.raises(SchemaError, match="no column 'side' that tells the side; they have 'id', 'name'"):
        split_arrivals(TABLE, "side")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["side", "side"])
    with pytest.raises(SchemaError, match="arrivals has two columns 'side'"):
        split_arrivals(twice, "side")
    left, right = pa.schema([("a", pa.int8())]), pa.schema([("b", pa.int8())])
    with pytest.raises(SchemaError, match="column 'c' that neither side has; left has 'a', right has 'b'"):
        split_arrivals(pa.table({"side": [0], "a": [1], "b": [1], "c": [1]}), "side", left, right)


def test_each_side_gets_its_own_columns_where_they_are_known() -> None:
    table = pa.table({"side": [0, 1], "ts": [1, 2], "bid": [5, None], "ask": [None, 6]})
    left = pa.schema([("ts", pa.int64()), ("bid", pa.int64())])
    right = pa.schema([("ask", pa.int64()), ("ts", pa.int64())])
    _, left_rows, right_rows = split_arrivals(table, "side", left, right)
    assert left_rows.to_pylist() == [{"ts": 1, "bid": 5}]
    assert right_rows.to_pylist() == [{"ask": 6, "ts": 2}]
    _, left_rows, right_rows = split_arrivals(table, "side", left)
    assert (left_rows.column_names, right_rows.column_names) == (["ts", "bid"], ["ts", "bid", "ask"])
    _, left_rows, _ = split_arrivals(table.drop_columns(["bid"]), "side", left)
    with pytest.raises(SchemaError, match="left has no column 'bid'"):
        Side("left", left).check(left_rows)


def test_arrivals_without_rows_or_columns() -> None:
    for empty in (pa.array([], pa.string()), pa.array([]), pa.array([], pa.float64())):
        sides, left, right = split_arrivals(pa.table({"side": empty, "a": pa.array([], pa.int8())}), "side")
        assert (len(sides), left.num_rows, right.num_rows) == (0, 0, 0)
    sides, left, right = split_arrivals(pa.table({"side": [0, 1, 1]}), "side")
    assert (len(sides), left.num_rows, right.num_rows) == (3, 1, 2)


@given(st.lists(st.tuples(st.booleans(), st.integers(), st.text(max_size=4)), max_size=30), st.data())
def test_split_rows_are_all_rows(rows: list[tuple[bool, int, str]], data: st.DataObject) -> None:
    table = pa.table(
        {
            "s": pa.array([row[0] for row in rows], pa.bool_()),
            "i": pa.array([row[1] % 2**63 for row in rows], pa.int64()),
            "t": pa.array([row[2] for row in rows], pa.string_view()),
        }
    )
    cut = data.draw(st.integers(0, len(rows)))
    table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    sides, left, right = split_arrivals(table, "s")
    halves = [iter(half.to_pylist()) for half in (left, right)]
    merged = [next(halves[side]) for side in sides]
    assert merged == table.drop_columns(["s"]).to_pylist()


def test_a_module_that_another_thread_is_importing_is_not_asked_for_its_classes(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", types.ModuleType("pandas"))
    assert to_table([{"a": 1}], "left").num_rows == 1
