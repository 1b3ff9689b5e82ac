"""RowStore against a plain list, for every Arrow type; names of results; the bound on memory."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin import SchemaError, _core, column_store
from slidejoin.columns import output_schema
from slidejoin.result import RowStore, result_table


class Celsius(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.float32(), "slidejoin.test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: Any, _serialized: bytes) -> "Celsius":
        return cls()


def text(i: int) -> str:
    return "é" * (i % 23) + str(i)


def encoded(values: pa.Array, type_: pa.DictionaryType) -> pa.Array:
    """Dictionary-encoded without a cast, so that every batch has a dictionary of its own."""
    array = values.dictionary_encode()
    indices = array.indices.cast(type_.index_type)
    dictionary = array.dictionary.cast(type_.value_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=type_.ordered)


STRUCT = pa.struct([("a", pa.int8()), ("b", pa.string_view()), ("c", pa.dictionary(pa.int8(), pa.string()))])

# A type and the value of row i. Every fifth value is null.
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "null": (pa.null(), lambda _: None),
    "bool": (pa.bool_(), lambda i: i % 3 == 0),
    "int8": (pa.int8(), lambda i: i % 128),
    "uint16": (pa.uint16(), lambda i: i % 2**16),
    "int64": (pa.int64(), lambda i: 2**53 + 1 + i),
    "uint64": (pa.uint64(), lambda i: 2**64 - 1 - i),
    "float16": (pa.float16(), lambda i: float(i % 100)),
    "float32": (pa.float32(), lambda i: i / 2),
    "float64": (pa.float64(), lambda i: -0.0 if i % 2 else 1 / (i + 1)),
    "date": (pa.date32(), lambda i: dt.date(1969, 12, 1) + dt.timedelta(i)),
    "time": (pa.time64("ns"), lambda i: i),
    "zoned": (pa.timestamp("ns", "Europe/Berlin"), lambda i: i),
    "duration": (pa.duration("us"), lambda i: i),
    "interval": (pa.month_day_nano_interval(), lambda i: (i, 2, 3)),
    "decimal32": (pa.decimal32(9, 2), lambda i: Decimal(i) / 4),
    "decimal128": (pa.decimal128(38, 2), lambda i: Decimal(10**30 + i)),
    "decimal256": (pa.decimal256(70, 2), lambda i: Decimal(i) / 4),
    "fixed binary": (pa.binary(3), lambda i: b"%03d" % (i % 1000)),
    "empty binary": (pa.binary(0), lambda _: b""),
    "string": (pa.string(), text),
    "large string": (pa.large_string(), text),
    "string view": (pa.string_view(), text),
    "binary": (pa.binary(), lambda i: bytes([i % 256]) * (i % 7)),
    "large binary": (pa.large_binary(), lambda i: bytes([i % 256]) * (i % 7)),
    "binary view": (pa.binary_view(), lambda i: bytes([i % 256]) * (i % 20)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda i: text(i % 100)),
    "dictionary of views": (pa.dictionary(pa.uint32(), pa.string_view()), text),
    "ordered dictionary": (pa.dictionary(pa.int64(), pa.int16(), ordered=True), lambda i: i % 9),
    "list": (pa.list_(pa.string()), lambda i: [text(i), None][: i % 3]),
    "large list": (pa.large_list(pa.int32()), lambda i: [i] * (i % 3)),
    "list view": (pa.list_view(pa.int32()), lambda i: [i] * (i % 3)),
    "large list view": (pa.large_list_view(pa.int32()), lambda i: [i] * (i % 3)),
    "fixed list": (pa.list_(pa.float64(), 2), lambda i: [i, None]),
    "list of views": (pa.list_(pa.string_view()), lambda i: [text(i)]),
    "map": (pa.map_(pa.string(), pa.int8()), lambda i: [(str(i), i % 100)]),
    "struct": (STRUCT, lambda i: {"a": i % 100, "b": text(i), "c": str(i % 7)}),
    "struct of structs": (pa.struct([("s", pa.struct([("x", pa.int8())]))]), lambda i: {"s": {"x": i % 9}}),
    "empty struct": (pa.struct([]), lambda _: {}),
    "sparse union": (pa.sparse_union([pa.field("i", pa.int64()), pa.field("s", pa.string())]), None),
    "dense union": (pa.dense_union([pa.field("i", pa.int64()), pa.field("s", pa.string())]), None),
    "run-end encoded": (pa.run_end_encoded(pa.int32(), pa.string()), lambda i: text(i // 3)),
    "uuid": (pa.uuid(), lambda i: b"%016d" % i),
    "json": (pa.json_(), text),
    "extension": (Celsius(), lambda i: i / 4),
    "tensor": (pa.fixed_shape_tensor(pa.int8(), [2]), lambda i: [i % 100, 1]),
}


def batch(name: str, first: int, count: int, nulls: bool = True) -> pa.Array:
    """Rows first, first + 1… of a type."""
    type_, value = TYPES[name]
    numbers = range(first, first + count)
    if pa.types.is_union(type_):
        kinds = pa.array([i % 2 for i in numbers], pa.int8())
        ints, texts = pa.array(list(numbers), pa.int64()), pa.array([str(i) for i in numbers], pa.string())
        if type_.mode == "sparse":
            return pa.UnionArray.from_sparse(kinds, [ints, texts], ["i", "s"])
        offsets = pa.array(range(count), pa.int32())
        return pa.UnionArray.from_dense(kinds, offsets, [ints, texts], ["i", "s"])
    values = [None if nulls and i % 5 == 4 else value(i) for i in numbers]
    return build(values, type_)


def build(values: list[Any], type_: pa.DataType) -> pa.Array:
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, build(values, type_.storage_type))
    if pa.types.is_dictionary(type_):
        plain = pa.string() if type_.value_type == pa.string_view() else type_.value_type
        return encoded(pa.array(values, plain), type_)
    if pa.types.is_run_end_encoded(type_):
        return pa.compute.run_end_encode(pa.array(values, type_.value_type), run_end_type=pa.int32())
    if type_ == STRUCT:
        rows = [value or {} for value in values]
        children = [build([row.get(field.name) for row in rows], field.type) for field in STRUCT]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(STRUCT), mask=mask)
    return pa.array(values, type_)


def plain(column: pa.Array | pa.ChunkedArray) -> list[str]:
    """Values that can be compared exactly: also the zone, -0.0 and the scale."""
    return [repr(value) for value in column.to_pylist()]


def table_of(*columns: pa.Array) -> pa.Table:
    return pa.Table.from_arrays(list(columns), [f"c{i}" for i in range(len(columns))])


@pytest.mark.parametrize("name", TYPES)
def test_every_type_survives(name: str) -> None:
    store = RowStore(table_of(batch(name, 0, 1)).schema)
    model: list[str] = []
    rng = np.random.default_rng(5)
    for step in range(60):
        array = batch(name, step * 7, int(rng.integers(0, 40)), nulls=step % 4 > 0)
        array = array.slice(len(array) // 3)
        store.append(table_of(array))
        model += plain(array)
        store.drop_before(max(store.first, store.next - int(rng.integers(1, 200))))
        assert (store.next, len(store)) == (len(model), store.next - store.first)
        if len(store):
            positions = rng.integers(store.first, store.next, 30)
            (taken,) = store.take(positions)
            assert taken.type == TYPES[name][0]
            taken.validate(full=True)
            assert plain(taken) == [model[p] for p in positions]
    assert store.table().schema == store.schema
    assert plain(store.table().column(0)) == model[store.first :]


@pytest.mark.parametrize("name", TYPES)
def test_several_workers_store_and_take_the_same(name: str) -> None:
    schema = table_of(batch(name, 0, 1)).schema
    alone, together = RowStore(schema, 3), RowStore(schema, 3, _core.NativeCrew(3))
    rng = np.random.default_rng(6)
    for step in range(3):
        table = table_of(batch(name, step * 5, 5000))
        for store in (alone, together):
            store.append(table)
            store.drop_before(store.next - 6000)
    for least in (alone.first, -1):
        positions = np.maximum(rng.integers(alone.first - 5, alone.next, 7000), least)
        positions[(positions >= 0) & (positions < alone.first)] = -1
        assert plain(together.take(positions)[0]) == plain(alone.take(positions)[0])


@pytest.mark.parametrize("name", TYPES)
def test_position_minus_one_is_a_row_of_nulls(name: str) -> None:
    store = RowStore(table_of(batch(name, 0, 1)).schema)
    (taken,) = store.take(np.array([-1, -1]))
    assert (taken.type, taken.to_pylist()) == (TYPES[name][0], [None, None])
    for first in (0, 2, 4):
        array = batch(name, first, 3)
        store.append(table_of(array.slice(1)))
    store.drop_before(1)
    expected = plain(store.table().column(0))
    (taken,) = store.take(np.array([5, -1, 1, -1, -1]))
    assert plain(taken) == [expected[4], "None", expected[0], "None", "None"]
    taken.validate(full=True)


@pytest.mark.parametrize("name", TYPES)
def test_rows_of_nulls_from_a_store_that_was_emptied(name: str) -> None:
    table = table_of(batch(name, 0, 9))
    store = RowStore(table.schema)
    for empty in (lambda: store.truncate(store.first), lambda: store.drop_before(store.next)):
        store.append(table)
        empty()
        assert store.take(np.array([-1, -1]))[0].to_pylist() == [None, None]
        store.append(table)
        assert plain(store.table().column(0)) == plain(table.column(0))


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, int, int]]]:
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=0, max_size=4))
    step = st.tuples(
        st.sampled_from(["append", "append", "take", "drop", "truncate"]),
        st.integers(0, 60),
        st.integers(0, 2**32 - 1),
    )
    return names, draw(st.lists(step, max_size=25))


@given(scripts())
def test_store_behaves_like_a_list(script: tuple[list[str], list[tuple[str, int, int]]]) -> None:
    names, steps = script
    store = RowStore(table_of(*[batch(name, 0, 0) for name in names]).schema, first=100)
    model: list[list[str]] = [[] for _ in names]
    first = following = 100
    for action, size, seed in steps:
        if action == "append":
            pieces = [
                table_of(*[batch(name, seed % 1000 + i, n) for name in names]) for i, n in ((0, size), (9, 3))
            ]
            for piece in pieces if names else []:
                following += piece.num_rows
                for values, column in zip(model, piece.columns, strict=True):
                    values.extend(plain(column))
            store.append(pa.concat_tables(pieces))
        elif action == "drop":
            first = min(first + size, following)
            store.drop_before(first)
        elif action == "truncate":
            following = max(first, following - size // 3)
            store.truncate(following)
            model = [values[: following - 100] for values in model]
        positions = np.random.default_rng(seed).integers(first, following, size if following > first else 0)
        taken = store.take(positions)
        assert (store.first, store.next) == (first, following)
        assert [plain(column) for column in taken] == [
            [values[p - 100] for p in positions] for values in model
        ]


@pytest.mark.parametrize("name", TYPES)
def test_memory_follows_the_live_rows(name: str) -> None:
    store = RowStore(table_of(batch(name, 0, 1)).schema)
    peak = 0
    for step in range(150):
        store.append(table_of(batch(name, 1000 * step, 400)))
        store.drop_before(max(0, store.next - 1000))
        peak = max(peak, store.nbytes)
    live = batch(name, 10**5, 1000)
    assert peak <= 8 * live.nbytes + 60_000
    store.drop_before(store.next - 1)
    store.append(table_of(batch(name, 0, 1)))
    assert store.nbytes <= 30_000


@pytest.mark.parametrize("name", TYPES)
def test_a_slice_keeps_nothing_of_its_parent(name: str) -> None:
    parent = batch(name, 0, 20_000)
    if pa.types.is_dictionary(parent.type):
        pytest.skip("the latest dictionary is kept whole")
    before = pa.total_allocated_bytes()
    store = RowStore(table_of(parent).schema)
    store.append(table_of(parent.slice(7_001, 3)))
    size = parent.get_total_buffer_size()
    kept = store.take(np.array([0, 1, 2, 2]))
    expected = plain(parent.slice(7_001, 3))
    assert store.nbytes < 30_000
    del parent
    assert pa.total_allocated_bytes() <= before - size + 30_000
    assert plain(kept[0]) == [*expected, expected[-1]]


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"dictionary", "dictionary of views"}))
def test_a_result_keeps_nothing_of_the_store(name: str) -> None:
    table = table_of(batch(name, 0, 20_000))
    store = RowStore(table.schema)
    store.append(table)
    (taken,) = store.take(np.array([3, 19_000]))
    assert taken.get_total_buffer_size() < 1000


def test_bytes_of_dropped_rows_are_given_back_when_rows_differ_in_size() -> None:
    store = RowStore(pa.schema([("s", pa.string())]))
    store.append(pa.table({"s": ["x" * 10**6]}))
    for i in range(100):
        store.append(pa.table({"s": [str(i)]}))
    store.drop_before(1)
    assert store.nbytes < 30_000
    assert store.take(np.array([1, 100]))[0].to_pylist() == ["0", "99"]


def test_dictionary_forgets_values_that_no_row_has() -> None:
    type_ = pa.dictionary(pa.int16(), pa.string())
    store = RowStore(pa.schema([("d", type_)]))
    for step in range(300):
        values = pa.array([f"{step}-{i}" for i in range(100)])
        store.append(pa.table({"d": encoded(values, type_)}))
        store.drop_before(max(0, store.next - 250))
        (taken,) = store.take(np.arange(store.first, store.next))
        assert len(taken.dictionary) < 2500
    assert taken.to_pylist()[-1] == "299-99"
    assert store.nbytes < 200_000


def test_dictionary_stays_the_same_while_batches_agree() -> None:
    values = pa.array(["low", "mid", "high"])
    type_ = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    store = RowStore(pa.schema([("d", type_)]))
    for indices in ([2, 0], [1, None], [0]):
        array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values, ordered=True)
        store.append(pa.table({"d": array}))
    (taken,) = store.take(np.array([0, 1, 2, 3, 4]))
    assert taken.dictionary.equals(values)
    assert taken.to_pylist() == ["high", "low", "mid", None, "low"]


def test_more_values_than_the_index_type_can_number_come_out_in_chunks() -> None:
    type_ = pa.dictionary(pa.int8(), pa.int32())
    store = RowStore(pa.schema([("d", type_)]))
    for start in range(0, 500, 100):
        store.append(pa.table({"d": encoded(pa.array(range(start, start + 100), pa.int32()), type_)}))
    (few,) = store.take(np.array([499, 0, 499]))
    assert (few.type, few.to_pylist()) == (type_, [499, 0, 499])
    (many,) = store.take(np.arange(500))
    assert (many.type, many.to_pylist()) == (type_, list(range(500)))
    assert many.num_chunks > 1


@pytest.mark.parametrize("values", [127, 128, 129])
def test_as_many_values_as_the_index_type_can_number(values: int) -> None:
    type_ = pa.dictionary(pa.int8(), pa.int32())
    store = RowStore(pa.schema([("d", type_)]))
    for part in (range(100), range(100, values)):
        store.append(pa.table({"d": encoded(pa.array(part, pa.int32()), type_)}))
    (last,) = store.take(np.array([values - 1, 0]))
    assert last.to_pylist() == [values - 1, 0]
    (every,) = store.take(np.arange(values))
    every.validate(full=True)
    assert every.to_pylist() == list(range(values))


def test_strings_beyond_32_bit_offsets_come_out_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_store, "MAX_BYTES", 100)
    store = RowStore(pa.schema([("s", pa.string()), ("l", pa.large_string())]))
    texts = ["x" * 40, None, "y" * 30, "z" * 90]
    store.append(pa.table({"s": texts, "l": pa.array(texts, pa.large_string())}))
    short, large = store.take(np.array([0, 1, 2, 3, 3]))
    assert short.to_pylist() == large.to_pylist() == [*texts, texts[-1]]
    assert short.type == pa.string()
    assert short.num_chunks > 1
    assert result_table(store.schema, [short, large]).num_rows == 5


def test_types_that_cannot_be_kept_are_refused_by_name() -> None:
    type_ = pa.struct([("r", pa.run_end_encoded(pa.int32(), pa.int8()))])
    with pytest.raises(SchemaError, match=r"'deep' has type struct<r: run_end_encoded.*cast it"):
        RowStore(pa.schema([("id", pa.int64()), ("deep", type_)]))


def test_a_failing_append_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"a": [1, 2], "s": ["x", "yy"], "l": [[1], [2]], "z": [3, 4]})
    store = RowStore(table.schema)
    store.append(table)

    def fail(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(column_store.Blocks, "appended", fail)
        with pytest.raises(MemoryError):
            store.append(table)
    assert store.next == 2
    store.append(table.slice(1))
    assert store.table().to_pylist() == [*table.to_pylist(), table.to_pylist()[1]]
    with pytest.raises(SchemaError, match="expected"):
        store.append(table.select(["a"]))


def test_positions_that_are_not_kept_are_refused() -> None:
    store = RowStore(pa.schema([("a", pa.int8())]))
    store.append(pa.table({"a": pa.array([1, 2, 3], pa.int8())}))
    store.drop_before(1)
    for positions in ([0], [3], [-2], [-1, 0], [1, 2, 3]):
        with pytest.raises(IndexError, match="rows 1 to 3 are kept"):
            store.take(np.array(positions))
    with pytest.raises(IndexError, match=r"drop_before\(4\)"):
        store.drop_before(4)
    for position in (0, 4):
        with pytest.raises(IndexError, match="truncate"):
            store.truncate(position)
    store.drop_before(0)
    assert (store.first, store.take(np.array([], np.int64))[0].type) == (1, pa.int8())


def test_empty_tables_and_tables_without_columns() -> None:
    table = pa.table({"a": [1, 2, 3], "s": ["a", "b", "c"]})
    store = RowStore(table.schema)
    store.append(table.slice(0, 0))
    store.append(table.schema.empty_table())
    assert (store.first, store.next, len(store)) == (0, 0, 0)
    bare = RowStore(pa.schema([]))
    bare.append(table.select([]))
    assert (bare.next, bare.take(np.array([2, 0])), bare.nbytes) == (3, [], 0)


def test_columns_of_a_result() -> None:
    left = pa.schema([("ts", pa.int64()), ("x", pa.int8())])
    right = pa.schema([("ts", pa.int32()), ("y", pa.string())])
    assert output_schema(left, right) == pa.schema(
        [("ts", pa.int64()), ("x", pa.int8()), ("ts_right", pa.int32()), ("y", pa.string())]
    )
    assert output_schema(left, right, ("_l", "_r")).names == ["ts_l", "x", "ts_r", "y"]
    assert [output_schema(left, right, only=side) for side in (0, 1)] == [left, right]


@pytest.mark.parametrize(
    ("left", "right", "suffixes", "twice"),
    [
        (["a", "a_right"], ["a"], ("", "_right"), "a_right"),
        (["a"], ["a"], ("", ""), "a"),
        (["a"], ["a", "a_right"], ("", "_right"), "a_right"),
        (["a", "b"], ["a", "ax"], ("x", "y"), "ax"),
    ],
)
def test_names_that_still_clash_are_refused(
    left: list[str], right: list[str], suffixes: tuple[str, str], twice: str
) -> None:
    schemas = [pa.schema([(name, pa.int8()) for name in names]) for names in (left, right)]
    with pytest.raises(
        SchemaError, match=rf"two columns '{twice}': .*left column .*right column|two columns"
    ):
        output_schema(*schemas, suffixes)


def test_result_table_has_left_then_right_columns() -> None:
    left, right = pa.table({"a": [1, 2]}), pa.table({"a": ["x", "y"]})
    stores = [RowStore(table.schema) for table in (left, right)]
    for store, table in zip(stores, (left, right), strict=True):
        store.append(table)
    schema = output_schema(left.schema, right.schema)
    table = result_table(schema, stores[0].take(np.array([1, 0])), stores[1].take(np.array([0, -1])))
    assert table.to_pylist() == [{"a": 2, "a_right": "x"}, {"a": 1, "a_right": None}]
    assert result_table(left.schema, stores[0].take(np.array([1]))).to_pylist() == [{"a": 2}]


def test_results_from_before_the_columns_are_known_are_left_out() -> None:
    join = sj.WindowJoin(sj.equal("k"), 10, how="full")
    results = [join.push(left={"k": [1, 2]}), join.push(right={"k": [2]}), join.finish()]
    assert results[0].num_columns == 0
    rows = [{"k": 2, "k_right": 2}, {"k": 1, "k_right": None}]
    assert sj.concat(results).to_pylist() == rows
    assert sj.concat([]).num_columns == 0
    assert sj.concat(iter(results)).to_pylist() == rows


A, B = pa.table({"a": [1]}), pa.table({"b": [1]})


@pytest.mark.parametrize(
    ("results", "error", "says"),
    [
        (None, sj.UsageError, "results is a NoneType; expected an iterable of tables, such as [join.push("),
        (5, sj.UsageError, "results is a int; expected an iterable of tables"),
        (A, sj.UsageError, "results is a Table; expected an iterable of tables"),
        (pd.DataFrame({"a": [1]}), sj.UsageError, "results is a DataFrame; expected an iterable of tables"),
        ("ab", sj.UsageError, "results[0] is a str; expected a pyarrow Table"),
        ([A, None], sj.UsageError, "results[1] is a NoneType; expected a pyarrow Table"),
        ([A, pd.DataFrame({"a": [1]})], sj.UsageError, "results[1] is a DataFrame; expected a pyarrow Table"),
        ([pa.table({}), A, B], sj.SchemaError, "results[2] has the columns 'b: int64'; expected 'a: i"),
        ([A, pa.table({"a": pa.array([1], pa.int8())})], sj.SchemaError, "'a: int8'; expected 'a: int64'"),
    ],
)  # fmt: skip
def test_what_cannot_be_concatenated(results: Any, error: Any, says: str) -> None:
    with pytest.raises(error) as caught:
        sj.concat(results)
    assert says in str(caught.value)
