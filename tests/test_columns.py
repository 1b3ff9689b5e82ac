"""Picked columns: which ones are stored, what batches may leave out, errors, snapshots, sources."""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import _core
from slidejoin.columns import alone, may_return
from slidejoin.snapshot import binary
from slidejoin.spec import join_spec

ON = sj.band("price", within=1)
TRADES = {"symbol": ["a", "b"], "price": [1.0, 5.0], "venue": ["x", "y"], "note": ["long", "text"]}
QUOTES = {"symbol": ["c"], "price": [1.5], "size": [7], "note": ["more"]}


def stored(join, side):
    return join._live.sides[side].schema.names


def test_columns_come_out_in_the_order_of_their_names():
    columns = ["size", "symbol_right", "venue", "price_right"]
    join = sj.WindowJoin(ON, 10, columns=columns)
    join.push(left=TRADES)
    out = join.push(right=QUOTES)
    assert out.column_names == columns
    assert out.to_pylist() == [{"size": 7, "symbol_right": "c", "venue": "x", "price_right": 1.5}]
    assert join.push(left=TRADES).column_names == columns
    assert join.finish().column_names == columns
    assert (stored(join, 0), stored(join, 1)) == (["price", "venue"], ["symbol", "price", "size"])
    assert sj.join(TRADES, QUOTES, ON, columns=columns).equals(out)
    assert "columns=['size', 'symbol_right', 'venue', 'price_right']" in repr(join)
    assert sj.WindowJoin(ON, 10, columns=("size",)).spec == sj.WindowJoin(ON, 10, columns=["size"]).spec


def test_explain_tells_what_is_stored():
    join = sj.WindowJoin(ON, 10, columns=["size", "venue"])
    join.push(left=TRADES)
    lines = dict(join.explain().lines)
    assert lines["columns"] == (
        "'size', 'venue' are returned; stored: left 'price', 'venue'; right not known yet"
    )
    join.push(right=QUOTES)
    assert dict(join.explain().lines)["columns"].endswith("right 'price', 'size'")
    assert "columns" not in dict(sj.WindowJoin(ON, 10).explain().lines)
    alone_ = sj.WindowJoin(ON, 10, self_join=True, columns=["venue"])
    alone_.push(TRADES)
    assert dict(alone_.explain().lines)["columns"].endswith("stored: of the stream 'price', 'venue'")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("price", r"columns='price'; expected a list of names .* such as \['price'\]"),
        ([], r"columns=\[\]; expected a list of names"),
        (["price", 3], "expected a list of names"),
        ({"left": ["price"]}, "expected a list of names"),
        (["price", "size", "price"], "columns has 'price' twice; name each column once"),
    ],
)
def test_wrong_arguments(columns, message):
    with pytest.raises(sj.SpecError, match=message):
        sj.WindowJoin(ON, 10, columns=columns)
    with pytest.raises(sj.SpecError, match=message):
        sj.join(TRADES, QUOTES, ON, columns=columns)


def test_unknown_names_are_an_error_before_any_row():
    message = re.escape(
        "the result has no column 'prise'; it has 'symbol', 'price', 'venue', 'note', 'symbol_right', "
        "'price_right', 'size', 'note_right'; columns= names it; did you mean 'price'?"
    )
    schemas = pa.table(TRADES).schema, pa.table(QUOTES).schema
    with pytest.raises(sj.SchemaError, match=message):
        sj.WindowJoin(ON, 10, columns=["prise"], schemas=schemas)
    with pytest.raises(sj.SchemaError, match=message):
        sj.join(TRADES, QUOTES, ON, columns=["prise"])
    join = sj.WindowJoin(ON, 10, columns=["prise"])
    join.push(left=TRADES)
    for _ in range(2):
        with pytest.raises(sj.SchemaError, match=message):
            join.push(right=QUOTES)
        assert (join.stats["rows_left"], join.stats["rows_right"]) == (2, 0)
    fitting = {**QUOTES, "prise": [3]}  # a side is known only once a batch of it is taken
    assert join.push(right=fitting).to_pylist() == [{"prise": 3}]


@pytest.mark.parametrize("how", ["left_semi", "left_anti"])
def test_semi_and_anti_joins_have_the_columns_of_one_side(how):
    join = sj.WindowJoin(ON, 10, how, columns=["size"])
    with pytest.raises(sj.SchemaError, match="the result has no column 'size'; it has 'symbol', 'price'"):
        join.push(left=TRADES)
    assert join.stats["rows_left"] == 0
    join = sj.WindowJoin(ON, 10, how, columns=["venue", "symbol"])
    found = [join.push(right=QUOTES), join.push(left=TRADES), join.finish()]
    name = "x" if how == "left_semi" else "y"
    assert [row["venue"] for row in sj.concat(found).to_pylist()] == [name]
    assert (stored(join, 0), stored(join, 1)) == (["symbol", "price", "venue"], ["price"])
    mirrored = sj.WindowJoin(ON, 10, how.replace("left", "right"), columns=["venue", "symbol"])
    found = [mirrored.push(left=QUOTES), mirrored.push(right=TRADES), mirrored.finish()]
    assert sj.concat(found).column_names == ["venue", "symbol"]
    assert stored(mirrored, 0) == ["price"]


def test_self_joins_store_what_either_side_returns():
    join = sj.WindowJoin(ON, 10, self_join=True, columns=["venue_right", "symbol", "venue"])
    out = join.push({**TRADES, "price": [1.0, 1.5]})
    assert out.to_pylist() == [{"venue_right": "y", "symbol": "a", "venue": "x"}]
    assert stored(join, 0) == ["symbol", "price", "venue"]
    with pytest.raises(sj.SchemaError, match="no column 'size'"):
        sj.WindowJoin(ON, 10, self_join=True, columns=["size"]).push(TRADES)


def test_names_of_dropped_columns_still_decide_suffixes():
    join = sj.WindowJoin(ON, 10, suffixes=("_l", "_r"), columns=["note_l", "size"])
    join.push(left=TRADES)
    join = sj.WindowJoin.restore(join.snapshot())
    assert join.push(right=QUOTES).to_pylist() == [{"note_l": "long", "size": 7}]
    assert stored(join, 1) == ["price", "size"]
    join = sj.WindowJoin.restore(join.snapshot())
    assert join.push(right=QUOTES).to_pylist() == [{"note_l": "long", "size": 7}]
    with pytest.raises(sj.SchemaError, match=r"the result has no column 'note'; .*'note_l'"):
        sj.join(TRADES, QUOTES, ON, suffixes=("_l", "_r"), columns=["note"])


def test_a_name_that_the_other_side_may_have_is_stored_until_it_is_known():
    columns = ["note", "size"]
    first = sj.WindowJoin(ON, 10, columns=columns)
    first.push(right=QUOTES)
    assert stored(first, 1) == ["price", "size", "note"]
    first.push(left=TRADES)
    later = sj.WindowJoin(ON, 10, columns=columns)
    later.push(left=TRADES)
    later.push(right=QUOTES)
    known = sj.WindowJoin(ON, 10, columns=columns, schemas=(pa.table(TRADES).schema, pa.table(QUOTES).schema))
    for join in (later, known):
        assert stored(join, 1) == ["price", "size"]
    for join in (first, later, known):
        assert join.push(left={**TRADES, "price": [0.7, 1.7]}).column_names == columns
    assert first.push(right=QUOTES).equals(later.push(right=QUOTES))


def test_two_columns_of_one_name_matter_only_where_it_is_wanted():
    left = {**TRADES, "note_right": [1, 2]}
    with pytest.raises(sj.SchemaError, match="two columns 'note_right'"):
        sj.join(left, QUOTES, ON)
    with pytest.raises(sj.SchemaError, match="two columns 'note_right': the left column 'note_right' and"):
        sj.join(left, QUOTES, ON, columns=["note_right"])
    assert sj.join(left, QUOTES, ON, columns=["note", "size"]).to_pylist() == [{"note": "long", "size": 7}]


class Unreadable:
    """Arrow cannot convert it."""


def test_dropped_columns_are_not_looked_at():
    join = sj.WindowJoin(ON, 10, columns=["venue", "size"])
    join.push(left=TRADES)
    join.push(right=QUOTES)
    more = {"price": [1.0], "venue": ["z"]}
    batches = [
        more,  # without them
        {**more, "note": [3]},  # in another type
        {**more, "new": [3]},
        {**more, "note": "one value", "symbol": [1, 2, 3]},
        [{"price": 1.0, "venue": "z", "note": Unreadable()}],
        pd.DataFrame({**more, "note": [Unreadable()]}),
        pd.DataFrame({**more, 5: [Unreadable()]}),
        pl.DataFrame({**more, "note": [[1]]}),
        pa.table({**more, "note": pa.nulls(1)}),
        pa.table({"venue": ["z"], "note": ["n"], "price": [1.0]}),
    ]
    for batch in batches:
        assert join.push(left=batch).to_pylist() == [{"venue": "z", "size": 7}]
    with pytest.raises(sj.SchemaError, match="left has no column 'venue'; it has 'price', 'note'"):
        join.push(left={"price": [1.0], "note": ["n"]})
    with pytest.raises(sj.SchemaError, match="left has a new column 'size'"):
        join.push(left={**more, "size": [3]})
    with pytest.raises(sj.SchemaError, match="left has two columns 'note'"):
        join.push(left=pa.table([[1.0], ["z"], [1], [2]], names=["price", "venue", "note", "note"]))
    for empty in ([], pd.DataFrame(), {"price": [], "venue": []}):
        assert join.push(left=empty).num_rows == 0
    assert join.stats["rows_left"] == 2 + len(batches)


@pytest.mark.parametrize("batch", [{"note": ["n"]}, pd.DataFrame({"note": ["n"]}), pa.table({"note": []})])
def test_a_first_batch_without_a_column_that_is_kept(batch):
    join = sj.WindowJoin(ON, 10, columns=["size"])
    with pytest.raises(sj.SchemaError, match="left has no column 'price'; it has 'note'; band"):
        join.push(left=batch)
    schema = pa.schema({"note": pa.string()})
    with pytest.raises(sj.SchemaError, match="left has no column 'price'; it has 'note'; band"):
        sj.WindowJoin(ON, 10, columns=["size"], schemas=(schema, schema))


def test_numbers_as_names():
    frame = pd.DataFrame({0: [1.0], 1: [2], 2: [3]})
    assert sj.join(frame, frame, sj.equal("0"), columns=["2_right", "1"]).to_pylist() == [
        {"2_right": 3, "1": 2}
    ]


@pytest.mark.parametrize("known", [True, False])
def test_arrivals(known):
    rows = [
        {"side": "left", "price": 1.0, "venue": "x", "note": "n", "size": None},
        {"side": "right", "price": 1.5, "venue": None, "note": None, "size": 7},
        {"side": "left", "price": 1.25, "venue": "y", "note": "n", "size": None},
    ]
    schemas = (
        pa.schema({"price": pa.float64(), "venue": pa.string(), "note": pa.string()}),
        pa.schema({"price": pa.float64(), "size": pa.int64()}),
    )
    suffix = "" if known else "_right"
    columns = [f"size{suffix}", "venue"]
    join = sj.WindowJoin(ON, 10, columns=columns, schemas=schemas if known else None)
    out = join.push(arrivals=rows)
    assert [tuple(row.values()) for row in out.to_pylist()] == [(7, "x"), (7, "y")]
    assert "note" not in [*stored(join, 0), *stored(join, 1)]
    assert join.push(arrivals=[{**row, "new": 3} for row in rows]).num_rows == 6
    with pytest.raises(sj.SchemaError, match="tells the side"):
        join.push(arrivals=[{"price": 1.0, "venue": "x"}])


def test_unused_payload_takes_no_memory():
    count = 2000
    payload = pa.array(["x" * 500] * count)
    rows = pa.table({"k": range(count), "ts": range(count), "id": range(count), "payload": payload})
    sizes, snapshots = [], []
    for columns in (None, ["id", "id_right"]):
        join = sj.WindowJoin(sj.equal("k"), sj.within(10**6, time="ts"), columns=columns)
        join.push(left=rows)
        assert join.push(right=rows.set_column(1, "ts", pa.array([count] * count))).num_rows == count
        sizes.append(join.stats["memory_bytes"])
        snapshots.append(len(join.snapshot()))
    assert sizes[0] - sizes[1] > 2 * count * 500
    assert snapshots[0] - snapshots[1] > 2 * count * 500
    late = sj.interval(0, 0, time="ts", lateness=0, late="return")
    waits = sj.WindowJoin(sj.equal("k"), late, columns=["id", "id_right"])
    waits.source("left", "a"), waits.source("right", "b")
    before = waits.stats["memory_bytes"]
    waits._source_push(0, "a", rows)
    assert waits.sources[0].waiting == count
    assert waits.stats["memory_bytes"] - before < count * 100


def test_late_rows_have_the_stored_columns():
    window = sj.interval(5, 5, time="ts", lateness=0, late="return")
    join = sj.WindowJoin(sj.equal("k"), window, columns=["v_right", "v"])
    assert join.take_late("left").num_columns == 0
    row = {"k": [1], "ts": [10], "v": ["v"], "note": ["n"]}
    join.push(left=row)
    join.push(right=row)
    join.push(left={**row, "ts": [3]})
    join = sj.WindowJoin.restore(join.snapshot())
    assert join.take_late("left").to_pylist() == [{"k": 1, "ts": 3, "v": "v"}]
    assert join.take_late("right").column_names == ["k", "ts", "v"]


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_held_back_until_the_other_side_is_known(side):
    """Unmatched rows wait for the columns of the other side; at the end they come out without."""
    columns = ["size", "venue", "venue_right", "size_right"]
    rows = {"price": [1.0, None, 9.0], "venue": ["x", "y", "z"], "size": [1, 2, 3], "note": ["n"] * 3}
    join = sj.WindowJoin(ON, 1, "full", columns=columns)
    assert join.push(**{side: rows}).num_columns == 0
    join = sj.WindowJoin.restore(join.snapshot())
    never = sj.WindowJoin.restore(join.snapshot())
    other = "right" if side == "left" else "left"
    out = join.push(**{other: {**rows, "price": [9.5, None, None]}})
    assert out.column_names == columns
    mine = ("venue", "size") if side == "left" else ("venue_right", "size_right")
    assert sorted(filter(None, out[mine[0]].to_pylist())) == ["x", "y", "z"]
    end = never.finish()
    assert end.column_names == ["size", "venue"]
    assert sorted(end["venue"].to_pylist()) == ["x", "y", "z"]


def test_a_side_alone_has_its_columns_by_their_own_names():
    spec = join_spec(ON, 10, suffixes=("_l", "_r"), columns=["b_l", "c_r", "a"])
    schema = pa.schema([(name, pa.int64()) for name in "abc"])
    assert alone(spec, 0, schema) == ["b", "a"]
    assert alone(spec, 1, schema) == ["c", "a"]
    assert may_return(spec, 0, "a", None)
    assert not may_return(spec, 0, "a", ["a"])
    assert may_return(spec, 0, "b", ["b"])
    assert not may_return(spec, 0, "b", ["c"])
    assert not may_return(spec, 1, "b", None)


# --- sources ---


def timed(count, start=0):
    return {
        "k": [1] * count,
        "ts": list(range(start, start + count)),
        "v": ["v"] * count,
        "note": ["n"] * count,
    }


@pytest.mark.parametrize("known", [True, False])
def test_sources_store_their_timestamps(known):
    """A window of rows names no timestamps; sources do, and need them while rows wait."""
    schema = pa.table(timed(1)).schema
    join = sj.WindowJoin(
        sj.equal("k"), 10, columns=["v_right", "v"], schemas=(schema, schema) if known else None
    )
    if known:
        assert stored(join, 0) == ["k", "v"]
        join.push(left=schema.empty_table())
    left = join.source("left", "a", time="ts")
    right = join.source("right", "b", time="ts")
    assert left.push(timed(3)).num_rows == 0
    join = sj.WindowJoin.restore(join.snapshot())
    left, right = join.source("left", "a", time="ts"), join.source("right", "b")
    assert join.sources[0].waiting == 3
    out = right.push(timed(2, start=1))
    out = sj.concat([out, join.finish()])
    assert out.to_pylist() == [{"v_right": "v", "v": "v"}] * 6
    assert stored(join, 0) == stored(join, 1) == ["k", "ts", "v"]
    join = sj.WindowJoin(sj.equal("k"), 10, columns=["v"])
    join.source("left", "a", time="ts")
    again = sj.WindowJoin.restore(join.snapshot())
    with pytest.raises(sj.SchemaError, match=r"left has no column 'ts'.*takes its timestamps"):
        again.source("left", "a").push({"k": [1], "v": ["v"]})


def test_timestamps_that_a_batch_has_dropped():
    join = sj.WindowJoin(sj.equal("k"), 10, columns=["v"])
    join.push(left=pa.table(timed(1)).slice(0, 0))
    with pytest.raises(sj.SchemaError, match=r"left column 'ts' is not stored.*open sources before"):
        join.source("left", "a", time="ts")


# --- snapshots ---


def test_a_spec_without_columns_is_what_it_was():
    spec = join_spec(ON, 10)
    assert "columns" not in spec.to_json()
    picked = join_spec(ON, 10, columns=["venue"])
    assert picked.fingerprint != spec.fingerprint
    assert type(picked).from_json(json.loads(json.dumps(picked.to_json()))) == picked
    with pytest.raises(sj.SpecError, match="expected a list"):
        type(picked).from_json({**spec.to_json(), "columns": "venue"})


@pytest.mark.parametrize(
    "names", [None, [None, None], [["price"], ["price"]], [["price", "venue", 3], []], ["price", "venue"]]
)
def test_a_snapshot_whose_names_contradict_its_columns(names):
    join = sj.WindowJoin(ON, 10, columns=["venue", "size"])
    join.push(left=TRADES)
    head, chunks = binary.unbundle(binary.decode(join.snapshot()))
    document = binary.decode(head)
    assert document.meta["names"] == [list(TRADES), None]
    meta = {**document.meta, "names": names}
    changed = binary.encode("head", document.fingerprint, meta, document.parts)
    with pytest.raises(sj.StateError, match="contradicts itself"):
        sj.WindowJoin.restore(binary.bundle(document.fingerprint, changed, chunks))


def test_increments():
    join, kept, token = sj.WindowJoin(ON, 10, columns=["venue", "size"]), {}, None
    for batch in ({"left": TRADES}, {"right": QUOTES}, {"left": TRADES}):
        join.push(**batch)
        new = join.snapshot_since(token)
        kept.update(new.chunks)
        token = new.token
    again = sj.WindowJoin.restore(new.head, chunks=kept)
    assert again.push(right=QUOTES).equals(join.push(right=QUOTES))
    again.check()


def test_the_core_takes_known_columns_only():
    rows = _core.NativeRows([8, 4], 0)
    with pytest.raises(IndexError, match="not stored"):
        rows.take(pa.array([], pa.int64()).to_numpy(), 100, columns=[2])


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.float32, np.int64])
def test_the_core_interleaves_the_values_of_both_sides(dtype):
    sides = np.array([1, 0, 0, 1, 0], np.uint8)
    left, right = np.array([1, 0, 1], dtype), np.array([0, 1], dtype)
    assert _core.interleave(sides, left, right).tolist() == np.array([0, 1, 0, 1, 1], dtype).tolist()
    assert _core.interleave(sides[:0], left[:0], right[:0]).dtype == dtype
    for wrong in (sides[1:], sides[:-1], 1 - sides, np.full(5, 2, np.uint8)):
        with pytest.raises(ValueError, match="do not fit"):
            _core.interleave(wrong, left, right)
    with pytest.raises(TypeError):
        _core.interleave(sides, left, right.astype(np.complex128))
