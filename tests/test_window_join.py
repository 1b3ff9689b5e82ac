"""WindowJoin: what users do with it, beyond what the properties cover."""

import datetime as dt
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slidejoin as sj

START = dt.datetime(2024, 1, 5)


def row(name, second):
    """One row of Polars: text and binary come as views."""
    return pl.DataFrame(
        {
            "k": [1.0],
            "name": [name],
            "raw": [name.encode()],
            "list": [[name]],
            "ts": [START + dt.timedelta(seconds=second)],
        }
    )


def test_late_rows_among_others_in_types_that_arrow_cannot_filter():
    window = sj.interval("5s", "5s", time="ts", lateness="0s", late="return")
    join = sj.WindowJoin(sj.band("k", within=1), window)
    join.push(left=row("a", 0))
    join.push(right=row("b", 0))
    assert join.push(left=pl.concat([row("late", -99), row("x", 1)]))["name"].to_pylist() == ["x"]
    assert join.push(right=row("c", 2))["name"].to_pylist() == ["a", "x"]
    late = join.take_late("left").to_pylist()
    assert [(entry["name"], entry["raw"], entry["list"]) for entry in late] == [("late", b"late", ["late"])]
    assert join.take_late("left").num_rows == 0
    join.check()


def test_an_empty_first_batch_whose_types_are_unknown_fixes_nothing():
    frame = pd.DataFrame({"g": ["a"], "p": [1.0]})
    join = sj.WindowJoin(sj.band("p", within=0.1), 10)
    join.push(left=frame.iloc[:0])  # pandas has no type for an empty column of objects
    join.push(left=frame)
    assert join.push(right=frame).num_rows == 1


@pytest.mark.parametrize(
    "column",
    [
        pl.DataFrame({"s": ["a"]}).cast(pl.Categorical),
        pl.DataFrame({"s": ["a"]}).cast(pl.Enum(["a"])),
        pd.DataFrame({"s": pd.Categorical(["a"])}),
    ],
    ids=["Categorical", "Enum", "pandas"],
)
def test_categories_as_keys(column):
    join = sj.WindowJoin(sj.equal("s"), 10)
    join.push(left=column)
    assert join.push(right=column).num_rows == 1
    assert join.push(left=pl.DataFrame({"s": ["a", "b"]})).num_rows == 1
    assert join.stats["matches"] == 2


def test_schemas_known_before_the_first_row():
    schema = pa.schema({"k": pa.int8(), "v": pa.string()})
    join = sj.WindowJoin(sj.equal("k"), 10, schemas=(schema, schema))
    assert join.push(left={"k": [1], "v": ["x"]}).schema.names == ["k", "v", "k_right", "v_right"]
    alone = sj.WindowJoin(sj.equal("k"), 10, self_join=True, schemas=schema)
    assert alone.push({"k": [1, 1], "v": [None, None]}).num_rows == 1
    for wrong in (schema, {"k": "f8"}, (1, 2), (schema,)):
        with pytest.raises(sj.SpecError, match="expected two pyarrow schemas"):
            sj.WindowJoin(sj.equal("k"), 10, schemas=wrong)
    other = pa.schema({"k": pa.string()})
    with pytest.raises(sj.SchemaError, match="int8"):
        sj.WindowJoin(sj.equal("k"), 10, schemas=(schema, other))


def test_wrong_calls_say_what_is_expected():
    join = sj.WindowJoin(sj.equal("k"), 10)
    with pytest.raises(sj.UsageError, match="a batch without a side; expected push"):
        join.push({"k": [1]})
    with pytest.raises(sj.UsageError, match="left and right; expected"):
        join.push(left={"k": [1]}, right={"k": [1]})
    with pytest.raises(sj.UsageError, match="late='return'"):
        join.take_late("left")
    with pytest.raises(sj.UsageError, match="interval window"):
        join.advance(5)
    with pytest.raises(sj.SpecError, match="joined by & only"):
        sj.equal("a") | sj.equal("b")
    with pytest.raises(sj.SpecError, match="has no ~"):
        ~sj.equal("a")
    join.finish()
    with pytest.raises(sj.UsageError, match="finished"):
        join.push(left={"k": [1]})


def test_a_closed_join_keeps_its_counters():
    with sj.WindowJoin(sj.equal("k"), 10) as join:
        join.push(left={"k": [1, 2]})
        join.push(right={"k": [2]})
    assert join.stats["matches"] == 1
    assert join.stats["stored_left"] == join.stats["memory_bytes"] == 0
    assert "closed" in repr(join.explain())
    with pytest.raises(sj.UsageError, match="closed"):
        join.push(left={"k": [1]})


@pytest.mark.parametrize("stage", ["add", "limit"])
def test_memory_that_runs_out_after_rows_were_joined_loses_nothing(monkeypatch, stage):
    join = sj.WindowJoin(sj.equal("k"), 1)
    join.push(left={"k": [1]})
    join.push(right={"k": [0]})

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(sj.live.RowStore, stage, fail)
    with pytest.raises(sj.CapacityError, match="after the rows were joined"):
        join.push(right={"k": [1]})
    with pytest.raises(sj.CapacityError, match="no room"):
        join.push(left={"k": [1]})
    monkeypatch.undo()
    assert join.push(left={"k": [1]}).to_pylist() == [{"k": 1, "k_right": 1}] * 2
    join.check()


@pytest.mark.parametrize(
    ("on", "window", "equalities", "banded"),
    [
        (sj.equal("a"), sj.rows(5), 0, "conjunct"),  # needs no hash
        (sj.equal("a") & sj.less("b"), sj.rows(5), 0, "conjunct"),
        (sj.equal("a") & sj.equal("b"), sj.rows(5), 2, "none"),
        (sj.band("b", within=1) & sj.equal("a"), sj.rows(5), 1, "conjunct"),
        (sj.less("b"), sj.rows(5), 0, "conjunct"),
        (sj.equal("a"), sj.interval(1, 1, time="b"), 1, "time"),
        (sj.less("a"), sj.interval(1, 1, time="b"), 0, "time"),
        (sj.equal("a") & sj.band("b", within=1), sj.interval(1, 1, time="b"), 1, "conjunct"),
    ],
    ids=str,
)
def test_what_is_indexed(on, window, equalities, banded):
    join = sj.WindowJoin(on, window)
    join.push(left={"a": [1], "b": [1]})
    plan = join._live.engine.plan
    assert (plan.equalities, plan.banded) == (equalities, banded)
    assert [key.op for key in plan.indexed][:equalities] == ["equal"] * equalities


def test_each_of_two_texts_must_differ():
    join = sj.WindowJoin(sj.equal("k") & sj.not_equal("a") & sj.not_equal("b"), sj.rows(9))
    join.push(right={"k": [1, 1, 1, 1], "a": ["x", "w", "w", "x"], "b": ["z", "y", "z", "y"]})
    result = join.push(left={"k": [1], "a": ["x"], "b": ["y"]})
    assert result.select(["a_right", "b_right"]).to_pylist() == [{"a_right": "w", "b_right": "z"}]


@pytest.mark.parametrize("side", [0, 1])
def test_rows_that_wait_for_the_columns_of_the_other_side_keep_theirs(side):
    names = ("left", "right")
    join = sj.WindowJoin(sj.equal("k"), sj.rows(1), how="full")
    assert join.push(**{names[side]: {"k": [1, 2]}}).num_rows == 0  # 1 has expired: what is left of it?
    result = join.push(**{names[1 - side]: {"k": [2]}})
    expected = [(1, None), (2, 2)] if side == 0 else [(None, 1), (2, 2)]
    assert [tuple(row.values()) for row in result.to_pylist()] == expected


def test_a_coarse_promise_after_a_fine_one():
    join = sj.WindowJoin(sj.equal("k"), sj.interval("1s", "1s", time="ts"))
    second = pa.array([10], pa.timestamp("s"))
    join.push(left={"k": [1], "ts": second})
    for milliseconds in (500, 1000, 1001, 2000):
        promised = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=milliseconds)
        join.advance(promised)
        assert join.stats["watermark"] == promised
    assert join.push(right={"k": [1], "ts": second.cast(pa.timestamp("us"))}).num_rows == 1


@pytest.mark.parametrize("rows", [[1], [1, 2, 3]])
def test_probe_only_rows_stay_so_when_the_other_side_becomes_known(rows):
    join = sj.WindowJoin(sj.equal("k"), sj.rows(9))
    join.push(left={"k": pa.array(rows, pa.int32())}, store=False)
    join.push(left={"k": pa.array([1], pa.int32())})
    assert join.push(right={"k": pa.array(rows, pa.int64())}).num_rows == 1


def test_explain_says_what_is_indexed_and_what_filters():
    on = sj.band("p", within=1) & sj.equal("s")
    join = sj.WindowJoin(on, sj.interval("1s", "1s", time="ts"))
    assert "not chosen yet" in repr(join.explain())
    table = pa.table({"p": [1.0], "s": ["a"], "ts": pa.array([START])})
    join.push(left=table)
    text = repr(join.explain())
    assert "by bucket-tree: equal('s', 's')" in text
    assert "together with band('p', 'p') on double" in text
    assert "as candidates are found: the interval of ts" in text
    assert "until advance()" in text
    assert "<table>" in join.explain()._repr_html_()


def test_one_far_future_row_does_not_keep_all_that_follow():
    """Rows leave by time, not in the order of arrival: state stays flat behind a row that lives long."""
    window = sj.interval(50, 50, time="ts", lateness=10)
    join = sj.WindowJoin(sj.band("k", within=1), window, order="full")
    never = sj.WindowJoin(sj.band("k", within=1), sj.interval(50, 50, time="ts"), order="full")
    rng = np.random.default_rng(5)
    sizes, start = [], 0
    for step in range(40):
        n = 1000
        ts = np.arange(start, start + n)
        if step == 1:
            ts[0] += 10**9
        batch = pa.table(
            {
                "side": rng.integers(0, 2, n),
                "k": rng.integers(0, 400, n),
                "ts": ts,
                "id": np.arange(start, start + n),
            }
        )
        if step == 1:
            batch = batch.set_column(0, "side", pa.array(np.r_[0, rng.integers(0, 2, n - 1)]))
        assert join.push(arrivals=batch).equals(never.push(arrivals=batch))
        join.check()
        sizes.append(join.stats["memory_bytes"])
        start += n
    assert join.stats["rows_left"] + join.stats["rows_right"] == start
    assert max(sizes[20:]) <= 1.2 * max(sizes[:20])


def test_batches_may_change_after_a_push():
    """Also while the other side's types are only guessed, and turn out to be others."""
    keys = np.array([1, 2, 3], np.int32)
    join = sj.WindowJoin(sj.equal("k"), 10)
    join.push(left=pa.table({"k": pa.array(keys)}))
    keys[:] = 9
    found = join.push(right=pa.table({"k": pa.array([1, 2, 3, 9], pa.int64())}))
    assert found.to_pydict() == {"k": [1, 2, 3], "k_right": [1, 2, 3]}


def test_text_that_differs_in_types_that_arrow_cannot_filter():
    join = sj.WindowJoin(sj.not_equal("k"), 10, order="full")
    join.push(left=pl.DataFrame({"k": ["a", "b", None]}))
    found = join.push(right=pl.DataFrame({"k": ["b", "c"]}))
    assert list(zip(*found.to_pydict().values(), strict=True)) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert join.stats["matches"] == 3


def test_run_end_encoded_text_as_a_key():
    values = pa.array(["a", "a", "b"]).dictionary_encode().dictionary_decode()
    encoded = pa.table(
        {"k": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))}
    )
    join = sj.WindowJoin(sj.equal("k"), 10)
    join.push(left=encoded)
    assert join.push(right=pa.table({"k": values})).num_rows == 5


def test_candidates_do_not_pile_up():
    """Two conditions that keep half each and nothing together: memory follows the window."""
    n = 20_000
    numbers = np.arange(n)
    join = sj.WindowJoin(
        sj.less("a") & sj.greater("b"), n, schemas=(pa.schema({"a": pa.int64(), "b": pa.int64()}),) * 2
    )
    join.push(left={"a": numbers, "b": numbers})
    assert join.push(right={"a": numbers[:2000], "b": numbers[:2000]}).num_rows == 0
    assert join.stats["memory_bytes"] < 500 * n


def test_a_bound_that_only_the_wider_side_can_hold():
    join = sj.WindowJoin(sj.band("k", within=1e39), 10)
    join.push(right={"k": pa.array([1.0], pa.float32())})  # beyond float32, but the left side is float64
    assert join.push(left={"k": pa.array([2.0], pa.float64())}).num_rows == 1


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("on", "window", "rows", "says"),
    [
        (sj.less("k"), 5, {"k": ["a"]}, "less on {} column 'k' (string): text and binary have no order"),
        (sj.equal("k"), 5, {"k": [[1]]}, "{} column 'k' (list<item: int64>) cannot be compared"),
        (
            sj.equal("k"), sj.within("5s", time="ts"), {"k": [1], "ts": [1]},
            "{} column 'ts' (int64): integers have no unit, but the window's 5s has one",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_column_that_was_pushed(side, on, window, rows, says):
    join = sj.WindowJoin(on, window)
    with pytest.raises(sj.SchemaError) as error:
        join.push(**{side: rows})
    assert says.format(side) in str(error.value)
    assert {"left": "right", "right": "left"}[side] not in str(error.value)


@pytest.mark.parametrize("type_", [pa.timestamp("ms"), pa.date32(), pa.int64()], ids=str)
def test_zero_needs_no_unit(type_):
    rows = pa.table({"t": pa.array([1, 2], pa.int32()).cast(type_) if type_ == pa.date32() else
                     pa.array([1, 2], pa.int64()).cast(type_)})  # fmt: skip
    for on, window in [
        (sj.band("t", within=0), 5),
        (sj.equal("t"), sj.interval(0, 0, time="t")),
        (sj.bands("t", ranges=[(0, 0)]), sj.interval(0, 0, time="t", lateness=0)),
    ]:
        join = sj.WindowJoin(on, window)
        join.push(left=rows)
        assert join.push(right=rows).num_rows == 2


def test_advance_to_an_earlier_time_changes_nothing():
    join = sj.WindowJoin(sj.equal("k"), sj.interval(5, 5, time="ts"), "left")
    join.push(left={"k": [1], "ts": [100]})
    join.push(right={"k": [2], "ts": [100]})
    assert join.advance(120).num_rows == 1
    before = join.stats
    for side in (None, "left", "right"):
        assert join.advance(110, side).num_rows == 0
        assert join.stats == before


def test_a_self_join_has_one_column():
    join = sj.WindowJoin(sj.less("k"), 5, self_join=True)
    with pytest.raises(sj.SchemaError, match=r"less on left column 'k' \(string\): text"):
        join.push({"k": ["a"]})
    with pytest.raises(sj.SchemaError, match=r"it has 'q'; less\('k'\) names it$"):
        join.push({"q": ["a"]})


def test_an_error_about_a_missing_column_says_who_names_it():
    join = sj.WindowJoin(sj.equal("id") & sj.band("x", "y", within=1), sj.within(5, time="ts"))
    join.push(left={"id": [1], "x": [1], "ts": [1]})
    for rows, says in [
        ({"uid": [1], "y": [1], "ts": [1]}, "right has no column 'id'; it has 'uid', 'y', 'ts'; "
         "equal('id') names it for both sides; did you mean 'uid'?"),
        ({"id": [1], "x": [1], "ts": [1]}, "right has no column 'y'; it has 'id', 'x', 'ts'; "
         "band('x', 'y', within=1) names it"),
        ({"id": [1], "y": [1], "t": [1]}, "right has no column 'ts'; it has 'id', 'y', 't'; "
         "within(5, time='ts') names it for both sides; did you mean 't'?"),
    ]:  # fmt: skip
        with pytest.raises(sj.SchemaError) as error:
            join.push(right=rows)
        assert str(error.value) == says


# --- What it shows of itself ---


def test_the_repr_names_the_join_type_and_durations():
    join = sj.WindowJoin(sj.band("x", within=1), sj.within("10s", time="ts"), "left")
    assert repr(join) == "WindowJoin(band('x', within=1), within('10s', time='ts'), how='left')"
    join = sj.WindowJoin(sj.equal("x"), 5, order="full", suffixes=("_l", "_r"))
    assert repr(join) == ("WindowJoin(equal('x'), rows(5), how='inner', order='full', suffixes=('_l', '_r'))")
    join = sj.WindowJoin(sj.equal("x"), 5, index="b-tree", self_join=True)
    assert repr(join) == "WindowJoin(equal('x'), rows(5), how='inner', index='b-tree', self_join=True)"


def test_notebooks_show_a_table_without_markup_of_the_users():
    join = sj.WindowJoin(sj.equal("<b>"), sj.interval(1, 2, time="ts", lateness=3), "right_semi")
    assert "<td>auto, not in use yet</td>" in join._repr_html_()
    join.push(left={"<b>": [1, 2], "ts": [10, 20]})
    join.push(right={"<b>": [1], "ts": [11]})
    html = join._repr_html_()
    assert "<b>" not in html
    for text in (
        "<th>condition</th><td>equal(&#x27;&lt;b&gt;&#x27;)</td>",
        "<td>interval(1, 2, time=&#x27;ts&#x27;, lateness=3)</td>",
        "<th>how</th><td>right_semi</td>",
        f"<th>index</th><td>{join.index}</td>",
        "<th>rows</th><td>2 left, 1 right</td>",
        "<th>matches</th><td>1</td>",
        "<th>stored rows</th><td>2 left, 1 right</td>",
        "<th>watermark</th><td>8</td>",
    ):
        assert text in html
    join.close()
    assert "<td>0 left, 0 right</td>" in join._repr_html_()


def test_stats_have_the_names_of_their_type():
    join = sj.WindowJoin(sj.equal("x"), 5)
    assert list(join.stats) == list(sj.JoinStats.__annotations__)
    join.push(left={"x": [1]})
    assert list(join.stats) == list(sj.JoinStats.__annotations__)


def test_the_typed_example_runs():
    runpy.run_path(str(Path(__file__).parent / "typed_example.py"))


# --- Lists of dicts ---


def test_lists_of_dicts_are_rows():
    join = sj.WindowJoin(sj.equal("x"), 5)
    assert join.push(left=[]).num_rows == 0  # nothing is known yet, and nothing came
    join.push(left=[{"x": 1, "name": "a"}, {"x": 2}])
    assert join.push(right=[{"x": 2}]).to_pylist() == [{"x": 2, "name": None, "x_right": 2}]
    assert join.push(left=[]).num_rows == 0
    arrivals = [{"side": "left", "x": 7, "name": "b"}, {"side": "right", "x": 7}]
    assert join.push(arrivals=arrivals).to_pylist() == [{"x": 7, "name": "b", "x_right": 7}]


@pytest.mark.parametrize("type_", [pa.int16(), pa.uint64(), pa.float32(), pa.string(), pa.large_binary()])
@pytest.mark.parametrize("unit", [None, "us"])
def test_keys_and_times_are_read_alike_from_slices_with_nulls_and_from_chunks(type_, unit):
    numbers = pa.array([9, 1, None, 2, 2, None, 1, 7, 3])
    keys = numbers.cast(pa.string()).cast(type_) if pa.types.is_large_binary(type_) else numbers.cast(type_)
    times = pa.array([0, 5, 6, None, 9, 9, 12, 15, 15]).cast(pa.timestamp(unit) if unit else pa.int64())
    table = pa.table({"k": keys, "ts": times, "id": pa.array(range(9))})
    window = sj.interval("1ms" if unit else 1000, "1ms" if unit else 1000, time="ts")
    results = []
    for pushed in (table.slice(1, 7), pa.concat_tables([table.slice(1, 2), table.slice(3, 5)])):
        join = sj.WindowJoin(sj.equal("k"), window)
        join.push(left=pushed.slice(0, 0))
        results.append(sj.concat([join.push(right=pushed), join.push(left=pushed), join.finish()]))
    assert results[0].num_columns == 6
    pairs = [{(row["id"], row["id_right"]) for row in result.to_pylist()} for result in results]
    assert pairs == [{(1, 1), (1, 6), (6, 1), (6, 6), (4, 4), (7, 7)}] * 2


def test_null_keys_of_interleaved_rows_stay_on_their_side() -> None:
    for missing in (0, 1):
        keys = [[None, 1, 1, 2], [1, None, 2, 1]][missing]
        join = sj.WindowJoin(sj.band("k", within=0), sj.rows(10))
        found = join.push(arrivals={"side": [0, 1, 0, 1], "k": pa.array(keys, pa.int64())})
        assert found.to_pylist() == [{"k": 1, "k_right": 1}]
        stats = join.stats
        assert (stats["null_left"], stats["null_right"]) == ((1, 0), (0, 1))[missing]


def test_arrivals_with_a_payload_of_sixteen_bytes():
    spans = pa.array([pa.MonthDayNano([1, 2, 3])] * 2, pa.month_day_nano_interval())
    join = sj.WindowJoin(sj.equal("id"), sj.rows(5))
    found = join.push(arrivals=pa.table({"side": [0, 1], "id": [1, 1], "span": spans}))
    assert found.num_rows == 1
