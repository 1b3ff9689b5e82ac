"""The embedded engine on files: all windows and join types against brute force, whatever the batches."""

import io
import json
import re
import urllib.request
from collections import Counter
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import run_cases as cases
from rich.console import Console

import slidejoin as sj
from slidejoin.errors import CapacityError, OrderError, SchemaError, SpecError
from slidejoin.join_type import JOIN_TYPES
from slidejoin.run import embedded, merge
from slidejoin.run.job import make_job

ON = "equal('symbol') & band('price', within=0.5)"
INTERVAL = "interval('5s', '1s', time='ts', lateness='3s')"


def run(tmp_path, left, right, on=ON, window=INTERVAL, batch=embedded.BATCH, **options):
    job = make_job(
        str(left), str(right), on=on, window=window, output=tmp_path / "out", overwrite=True, **options
    )
    return embedded.run(job, Console(file=io.StringIO()), batch)


@pytest.fixture
def inputs(tmp_path):
    rng = np.random.default_rng(5)
    left, right = (cases.side(rng, rows, name, disorder=2.0) for rows, name in ((300, "a"), (400, "b")))
    cases.write(left, tmp_path / "left", files=3)
    cases.write(right, tmp_path / "right", files=2)
    return left, right


@pytest.mark.parametrize("how", JOIN_TYPES)
@pytest.mark.parametrize("batch", [7, 1000])
def test_interval_of_disordered_rows(tmp_path, inputs, how, batch):
    summary = run(tmp_path, tmp_path / "left", tmp_path / "right", how=how, batch=batch)
    expected = cases.joined(*inputs, cases.near(5, 1, 0.5), how)
    assert len(expected) > 20
    assert cases.result(tmp_path / "out") == expected
    assert summary.result_rows == expected.total()
    assert (summary.left_rows, summary.right_rows, summary.late_rows) == (300, 400, 0)


@pytest.mark.parametrize("how", JOIN_TYPES)
@pytest.mark.parametrize("batch", [7, 1000])
def test_within_of_rows_in_order(tmp_path, how, batch):
    rng = np.random.default_rng(6)
    inputs = [cases.side(rng, rows, name) for rows, name in ((300, "a"), (400, "b"))]
    for table, name in zip(inputs, ("left", "right"), strict=True):
        cases.write(table, tmp_path / name, files=2)
    window = "within('3s', time='ts')"
    run(tmp_path, tmp_path / "left", tmp_path / "right", window=window, how=how, batch=batch)
    assert cases.result(tmp_path / "out") == cases.joined(*inputs, cases.near(3, 3, 0.5), how)


@pytest.mark.parametrize("how", JOIN_TYPES)
@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("sizes", [(60, 100), (100, 60), (100, 0)])
def test_rows_alternate(tmp_path, how, batch, sizes):
    rng = np.random.default_rng(7)
    inputs = [
        pa.table({name: np.arange(rows), "key": rng.integers(0, 8, rows)})
        for name, rows in zip(("a", "b"), sizes, strict=True)
    ]
    for table, name in zip(inputs, ("left", "right"), strict=True):
        cases.write(table, tmp_path / name)
    kept_left, kept_right = 5, 9
    run(
        tmp_path, tmp_path / "left", tmp_path / "right",
        on="equal('key')", window=f"rows(left={kept_left}, right={kept_right})", how=how, batch=batch,
    )  # fmt: skip
    arrivals = sorted([(row, side) for side in (0, 1) for row in range(sizes[side])])
    seen, pairs = ([], []), []
    keys = [table["key"].to_pylist() for table in inputs]
    for row, side in arrivals:
        visible = seen[1 - side][-(kept_right, kept_left)[side] :]
        partners = [other for other in visible if keys[side][row] == keys[1 - side][other]]
        pairs += [(row, other) if side == 0 else (other, row) for other in partners]
        seen[side].append(row)
    rows = [table.to_pylist() for table in inputs]
    expected = cases.rows_of_pairs(*rows, pairs, how) if all(rows) else None
    if expected is not None:
        assert cases.result(tmp_path / "out") == expected
    else:
        assert cases.result(tmp_path / "out").total() == (100 if how in ("left", "full", "left_anti") else 0)


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_texts_give_what_parquet_gives(tmp_path, inputs, format_):
    for table, name in zip(inputs, ("left", "right"), strict=True):
        cases.write(table, tmp_path / format_ / name, files=2, format_=format_)
    run(tmp_path, tmp_path / format_ / "left", tmp_path / format_ / "right", how="full")
    assert cases.result(tmp_path / "out") == cases.joined(*inputs, cases.near(5, 1, 0.5), "full")


@pytest.mark.parametrize("batch", [1, 13, 1000])
def test_late_rows_do_not_depend_on_the_batches(tmp_path, batch):
    rng = np.random.default_rng(8)
    left, right = (cases.side(rng, 400, name, disorder=12.0) for name in ("a", "b"))
    for table, name in ((left, "left"), (right, "right")):
        cases.write(table, tmp_path / name)
    whole = run(tmp_path, tmp_path / "left", tmp_path / "right", batch=10**6)
    expected = cases.result(tmp_path / "out")
    summary = run(tmp_path, tmp_path / "left", tmp_path / "right", batch=batch)
    assert cases.result(tmp_path / "out") == expected
    assert summary.late_rows == whole.late_rows > 10
    assert f"{summary.late_rows:,} late rows were dropped" in summary.notes[0]


def test_a_row_is_late_only_behind_its_own_side(tmp_path):
    """One side is far ahead of the other in the files, which read in step makes no row late."""
    times = np.arange(0, 1000, dtype=np.int64)
    cases.write(pa.table({"a": times, "ts": times}), tmp_path / "left")
    cases.write(pa.table({"b": times[500:], "ts": times[500:]}), tmp_path / "right")
    summary = run(
        tmp_path, tmp_path / "left", tmp_path / "right",
        on="equal('a', 'b')", window="interval(0, 0, time='ts', lateness=1)", batch=64,
    )  # fmt: skip
    assert (summary.late_rows, summary.result_rows) == (0, 500)


def test_memory_is_that_of_the_window_not_of_the_input(tmp_path, monkeypatch):
    """Also where one input ends long before the other."""
    times = np.arange(0, 20_000, dtype=np.int64)
    cases.write(pa.table({"a": times, "ts": times}), tmp_path / "left")
    cases.write(pa.table({"b": times[:3000], "ts": times[:3000]}), tmp_path / "right")
    most = 0
    push = merge.LiveJoin.push

    def watched(self, *arguments):
        nonlocal most
        found = push(self, *arguments)
        stats = self.stats()
        most = max(most, stats["stored_left"] + stats["stored_right"])
        return found

    monkeypatch.setattr(merge.LiveJoin, "push", watched)
    for ahead, behind in (("left", "right"), ("right", "left")):
        run(
            tmp_path, tmp_path / ahead, tmp_path / behind,
            on="equal('ts')", window="interval(10, 10, time='ts', lateness=5)", batch=100,
        )  # fmt: skip
        assert 0 < most < 500


def test_large_results_make_pushes_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "_RESULT_ROWS", 1000)
    ones = pa.table({"a": np.ones(3000, np.int64), "n": np.arange(3000)})
    cases.write(ones, tmp_path / "left")
    cases.write(ones.rename_columns(["a", "m"]), tmp_path / "right")
    sizes = []
    push = merge.LiveJoin.push

    def watched(self, sides, tables):
        sizes.append(len(sides))
        return push(self, sides, tables)

    monkeypatch.setattr(merge.LiveJoin, "push", watched)
    summary = run(
        tmp_path, tmp_path / "left", tmp_path / "right", on="equal('a')", window="rows(100)", batch=2048
    )
    assert sizes[0] > 4000  # nothing is known yet
    assert 0 < max(sizes[1:]) < 600
    assert summary.result_rows == sum(min(i, 100) + min(i + 1, 100) for i in range(3000))


@pytest.mark.parametrize("batch", [3, 7, 1000])
def test_progress_counts_the_rows_whose_matches_it_counts(tmp_path, monkeypatch, batch):
    ones = pa.table({"a": np.ones(20, np.int64)})
    cases.write(ones, tmp_path / "left")
    cases.write(ones.slice(0, 15), tmp_path / "right")
    shown = []

    class Recorder(embedded.RowProgress):
        def update(self, rows, matches):
            shown.append((rows, matches))

    monkeypatch.setattr(embedded, "RowProgress", Recorder)
    run(tmp_path, tmp_path / "left", tmp_path / "right", on="equal('a')", window="rows(100)", batch=batch)
    for rows, matches in shown:  # left and right rows alternate as long as there are right ones
        right = min(rows // 2, 15)
        assert matches == right * (rows - right)
    assert shown[-1] == (35, 300)


def test_the_last_line_has_all_results(tmp_path):
    cases.write(pa.table({"a": [1, 2, 3]}), tmp_path / "left")
    cases.write(pa.table({"a": [3, 4]}), tmp_path / "right")
    console = Console(file=io.StringIO())
    job = make_job(
        str(tmp_path / "left"), str(tmp_path / "right"),
        on="equal('a')", window="rows(9)", how="full", output=tmp_path / "out",
    )  # fmt: skip
    assert embedded.run(job, console).result_rows == 4
    (line,) = console.file.getvalue().splitlines()
    assert line.startswith("5 rows ")
    assert line.endswith(" 4 matches")


def test_disorder_of_within_names_the_row(tmp_path):
    times = np.array([1, 2, 3, 4, 2, 5], np.int64)
    cases.write(pa.table({"a": times, "ts": times}), tmp_path / "left", files=2)
    cases.write(pa.table({"b": times[:3], "ts": times[:3]}), tmp_path / "right")
    with pytest.raises(OrderError, match=r"left, row 5: 'ts' is 2 after 4, .*--sort-by ts, or use interval"):
        run(
            tmp_path, tmp_path / "left", tmp_path / "right",
            on="equal('ts')", window="within(10, time='ts')", batch=2,
        )  # fmt: skip
    assert not (tmp_path / "out").exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["left", "right"]


def test_timestamps_beyond_datetime(tmp_path):
    """Advancing by the other side's time must not go through Python's datetime."""
    far = pa.array([400_000_000_000, 400_000_000_001], pa.timestamp("s", "UTC"))
    cases.write(pa.table({"a": [1, 2], "ts": far}), tmp_path / "left")
    cases.write(pa.table({"b": [1], "ts": far[:1]}), tmp_path / "right")
    summary = run(tmp_path, tmp_path / "left", tmp_path / "right", on="equal('a', 'b')")
    assert summary.result_rows == 1


def test_errors_come_before_the_work(tmp_path, inputs):  # noqa: ARG001
    left, right = tmp_path / "left", tmp_path / "right"
    with pytest.raises(SchemaError, match="left has no column 'cost'"):
        run(tmp_path, left, right, on="less('cost', 'price')")
    with pytest.raises(SchemaError, match="has no column 'when'"):
        run(tmp_path, left, right, window="within('1s', time='when')")
    with pytest.raises(SpecError, match="add time='column'"):
        run(tmp_path, left, right, window="within('1s')")
    with pytest.raises(SpecError, match="how='outer'"):
        run(tmp_path, left, right, how="outer")
    with pytest.raises(SpecError, match="leave late='return' out"):
        run(tmp_path, left, right, window="interval('1s', '1s', time='ts', late='return')")
    assert not (tmp_path / "out").exists()


def test_without_lateness_nothing_is_late(tmp_path):
    rng = np.random.default_rng(9)
    left, right = (cases.side(rng, 200, name, disorder=60.0) for name in ("a", "b"))
    cases.write(left, tmp_path / "left")
    cases.write(right, tmp_path / "right")
    summary = run(tmp_path, tmp_path / "left", tmp_path / "right", window="interval('5s', '1s', time='ts')")
    assert cases.result(tmp_path / "out") == cases.joined(left, right, cases.near(5, 1, 0.5))
    assert "all rows were kept until the end" in summary.notes[0]


def test_all_columns_keep_their_types(tmp_path):
    table = pa.table(
        {
            "ts": pa.array([1, 2], pa.timestamp("ns")),
            "n": pa.array([2**63 - 1, None], pa.int64()),
            "d": pa.array([timedelta(seconds=1), None], pa.duration("us")),
            "l": pa.array([[1], None], pa.list_(pa.int8())),
            "c": pa.array(["x", None]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.rename_columns([f"{name}2" for name in table.column_names]), tmp_path / "b.parquet")
    window = "interval('0s', '1ms', time=('ts', 'ts2'))"
    run(
        tmp_path,
        tmp_path / "a.parquet",
        tmp_path / "b.parquet",
        on="equal('c', 'c2')",
        window=window,
        how="full",
    )
    schema = pq.read_schema(tmp_path / "out" / "part-00000.parquet")
    assert schema.types == table.schema.types * 2


# --- the order of arrivals ---


def reference(inputs, on, window, how, arrivals):
    """The join of rows that arrive one by one, as ``(side, row)``."""
    join = sj.WindowJoin(on, window, how, order="full", schemas=tuple(table.schema for table in inputs))
    pushes = [{("left", "right")[side]: inputs[side].slice(row, 1)} for side, row in arrivals]
    return sj.concat([*(join.push(**push) for push in pushes), join.finish()])


def in_order(inputs, names):
    """All rows by a column, left ones first where equal."""
    keys = [table[name].to_pylist() for table, name in zip(inputs, names, strict=True)]
    return sorted(
        ((side, row) for side in (0, 1) for row in range(inputs[side].num_rows)),
        key=lambda place: (keys[place[0]][place[1]], *place),
    )


def whole(directory):
    return pq.read_table(directory).to_pylist()


@pytest.fixture
def unsorted(tmp_path):
    rng = np.random.default_rng(11)
    inputs = [
        pa.table({"n": np.arange(rows), "key": rng.integers(0, 6, rows), name: rng.integers(0, 90, rows)})
        for rows, name in ((120, "ts"), (80, "time"))
    ]
    for table, name in zip(inputs, ("left", "right"), strict=True):
        cases.write(table, tmp_path / name, files=2)
    return inputs


@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
@pytest.mark.parametrize("batch", [7, 1000])
@pytest.mark.parametrize(
    "window",
    [sj.rows(9), sj.within(4, time=("ts", "time")), sj.interval(3, 2, time=("ts", "time"), lateness=0)],
)
def test_sorted_inputs(tmp_path, unsorted, how, batch, window):
    summary = run(
        tmp_path, tmp_path / "left", tmp_path / "right", on="equal('key')", window=repr(window), how=how,
        batch=batch, sort_by="ts,time",
    )  # fmt: skip
    arrivals = in_order(unsorted, ("ts", "time"))
    expected = reference(unsorted, sj.equal("key"), window, how, arrivals)
    assert expected.num_rows > 10
    if window.has_watermark:  # rows that leave the window do so earlier once one side has ended
        rows = [tuple(row.values()) for row in expected.to_pylist()]
        assert cases.result(tmp_path / "out") == Counter(rows)
    else:
        assert whole(tmp_path / "out") == expected.to_pylist()
    assert not summary.late_rows
    assert summary.notes[-1] == "both inputs were sorted in memory by ts and time"


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_rows_merged_by_a_column(tmp_path, unsorted, batch):
    inputs = [
        table.sort_by([(name, "ascending"), ("n", "ascending")])
        for table, name in zip(unsorted, ("ts", "time"), strict=True)
    ]
    for table, name in zip(inputs, ("l", "r"), strict=True):
        cases.write(table, tmp_path / name)
    options = {"on": "equal('key')", "window": "rows(9)", "how": "full", "batch": batch}
    run(tmp_path, tmp_path / "l", tmp_path / "r", merge_by="ts,time", **options)
    expected = reference(inputs, sj.equal("key"), sj.rows(9), "full", in_order(inputs, ("ts", "time")))
    assert whole(tmp_path / "out") == expected.to_pylist()
    with pytest.raises(OrderError, match=r"(left|right), row \d+: '(ts|time)' is .* give --sort-by ts,time$"):
        run(tmp_path, tmp_path / "left", tmp_path / "right", merge_by="ts,time", **options)


@pytest.mark.parametrize("lengths", [(300, 40), (40, 300), (200, 200)])
@pytest.mark.parametrize("how", ["inner", "full", "right_anti"])
def test_results_and_their_order_do_not_depend_on_the_batches(tmp_path, lengths, how):
    """Also after one input has ended, with late rows and rows that become final."""
    rng = np.random.default_rng(12)
    for rows, name in zip(lengths, ("left", "right"), strict=True):
        times = np.arange(rows) + rng.integers(0, 25, rows)
        cases.write(
            pa.table({name: np.arange(rows), "ts": times, "k": rng.integers(0, 4, rows)}), tmp_path / name
        )
    found = []
    for batch in (1, 3, 50, 10_000):
        summary = run(
            tmp_path, tmp_path / "left", tmp_path / "right", on="equal('k')", how=how, batch=batch,
            window="interval(3, 5, time='ts', lateness=12)",
        )  # fmt: skip
        found.append((whole(tmp_path / "out"), summary.late_rows))
    assert found[0][1] > 5
    assert len(found[0][0]) > 4
    for other in found[1:]:
        assert other == found[0]


def test_options_of_the_order_that_do_not_fit(tmp_path, unsorted):  # noqa: ARG001
    left, right = tmp_path / "left", tmp_path / "right"
    for options, says in (
        ({"window": None, "sort_by": "ts"}, "--sort-by is for a join with --window"),
        ({"window": "rows(5)", "sort_by": "a,b,c"}, "expected two texts with a comma between: ts,time"),
        ({"window": "rows(5)", "sort_by": "ts", "merge_by": "n"}, "differ; --sort-by alone does both"),
        ({"window": "within(5, time=('ts', 'time'))", "merge_by": "n"}, "--merge-by is for rows"),
        ({"window": "within(5, time=('ts', 'time'))", "sort_by": "n"}, "give --sort-by ts,time"),
    ):
        with pytest.raises(SpecError, match=says):
            run(tmp_path, left, right, on="equal('key')", **options)
    with pytest.raises(SchemaError, match="left has no column 'tz'"):
        run(tmp_path, left, right, on="equal('key')", window="rows(5)", sort_by="tz,time")


def test_what_is_too_large_to_be_sorted_is_refused(tmp_path, unsorted, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(merge, "_SORTED_SHARE", 1e-9)
    with pytest.raises(CapacityError, match=r"left has more than 0\.0 GB of rows.*sort the files before"):
        run(
            tmp_path, tmp_path / "left", tmp_path / "right",
            on="equal('key')", window="rows(5)", sort_by="ts,time",
        )  # fmt: skip


# --- without a window ---


@pytest.mark.parametrize("how", JOIN_TYPES)
@pytest.mark.parametrize("batch", [7, 1000])
def test_all_rows_of_both_inputs(tmp_path, inputs, how, batch):
    summary = run(tmp_path, tmp_path / "left", tmp_path / "right", window=None, how=how, batch=batch)
    expected = sj.join(*inputs, sj.equal("symbol") & sj.band("price", within=0.5), how)
    assert expected.num_rows > 20
    assert whole(tmp_path / "out") == expected.to_pylist()
    assert (summary.left_rows, summary.right_rows, summary.late_rows) == (300, 400, None)
    assert summary.result_rows == expected.num_rows


def test_all_rows_where_there_are_none(tmp_path):
    table = pa.table({"a": pa.array([], pa.int64())})
    for name in ("left", "right"):
        cases.write(table, tmp_path / name)
    run(tmp_path, tmp_path / "left", tmp_path / "right", on="equal('a')", window=None)
    assert pq.read_table(tmp_path / "out").column_names == ["a", "a_right"]


# --- columns ---


@pytest.mark.parametrize("window", [None, INTERVAL])
def test_columns_are_picked_in_order(tmp_path, inputs, window):
    run(tmp_path, tmp_path / "left", tmp_path / "right", window=window, columns="b, price_right,a")
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["b", "price_right", "a"]
    job_all = cases.joined(*inputs, cases.near(5, 1, 0.5)) if window else None
    if job_all is not None:
        expected = Counter((row[5], row[7], row[0]) for row in job_all.elements())
        assert Counter(tuple(row.values()) for row in table.to_pylist()) == expected
    else:
        expected = sj.join(*inputs, sj.equal("symbol") & sj.band("price", within=0.5))
        assert table.to_pylist() == expected.select(["b", "price_right", "a"]).to_pylist()


@pytest.mark.parametrize("how", JOIN_TYPES)
@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_columns_that_are_not_needed_are_not_read(tmp_path, inputs, how, format_):
    """The names of the result are those of all columns, the rows those of a run that picks afterwards."""
    only = {"l": 0, "r": 1}.get(how[0]) if how.endswith(("semi", "anti")) else None
    columns = {None: "price_right,b,a", 0: "amount,a", 1: "price,b"}[only]
    for table, name in zip(inputs, ("l", "r"), strict=True):
        cases.write(table, tmp_path / format_ / name, format_=format_)
    paths = [str(tmp_path / format_ / name) for name in "lr"]
    job = make_job(*paths, on=ON, window=INTERVAL, output=tmp_path / "out", how=how, columns=columns)
    needed = {"symbol", "price", "ts"}
    picked = [{"a"} if only != 1 else set(), {"b"} if only != 0 else set()]
    picked[0] |= {"amount"} if only == 0 else set()
    assert [set(side.schema.names) for side in job.read] == [needed | extra for extra in picked]
    run(tmp_path, *paths, how=how, columns=columns)
    found = pq.read_table(tmp_path / "out")
    assert found.column_names == columns.split(",")
    run(tmp_path, *paths, how=how)
    assert found.equals(pq.read_table(tmp_path / "out").select(columns.split(",")))


def test_columns_of_the_order_are_read(tmp_path, inputs):  # noqa: ARG001
    job = make_job(
        str(tmp_path / "left"), str(tmp_path / "right"), on="left.price <= right.price", window="rows(9)",
        output=tmp_path / "out", columns="b", merge_by="ts,amount",
    )  # fmt: skip
    assert [side.schema.names for side in job.read] == [["price", "ts"], ["b", "price", "amount"]]


def test_late_rows_recommend_sorting(tmp_path, inputs):  # noqa: ARG001
    window = "interval('5s', '1s', time='ts', lateness='1ms')"
    summary = run(tmp_path, tmp_path / "left", tmp_path / "right", window=window)
    assert summary.late_rows
    assert any("larger lateness, or sort the inputs: --sort-by ts" in note for note in summary.notes)


def test_columns_that_are_not_there(tmp_path, inputs):  # noqa: ARG001
    left, right = tmp_path / "left", tmp_path / "right"
    with pytest.raises(SchemaError, match=r"the result has no column 'prize'.*did you mean 'price'"):
        run(tmp_path, left, right, columns="a,prize")
    with pytest.raises(SchemaError, match="the result has no column 'b'"):
        run(tmp_path, left, right, columns="a,b", how="left_semi")
    with pytest.raises(SpecError, match="--columns has 'a' twice"):
        run(tmp_path, left, right, columns="a,a")


def test_plans(tmp_path, inputs):  # noqa: ARG001
    def plan(**options):
        paths = (str(tmp_path / "left"), str(tmp_path / "right"))
        return repr(embedded.explain(make_job(*paths, on=ON, output=tmp_path / "out.csv", **options)))

    windowed = plan(window=INTERVAL, columns="a,b")
    for part in ("3 parquet files; a int64, symbol string",
                 "inner on equal('symbol') & band('price', within=0.5)",
                 "event time, -5s <= right - left <= 1s", "in the order of ts, left rows first where equal",
                 "out.csv: csv; a, b"):  # fmt: skip
        assert part in windowed
    assert "left and right rows in turn" in plan(window="rows(5)")
    assert "in the order of ts, left rows first where equal, sorted in memory first" in plan(
        window="rows(5)", sort_by="ts"
    )
    assert "none: both inputs are read whole, sorted and merged" in plan()


def test_a_live_page_shows_the_run_until_its_end(tmp_path, inputs, monkeypatch):  # noqa: ARG001
    """Its figures are those of the summary, and its address is printed; nothing serves it afterwards."""
    seen, console = [], Console(file=io.StringIO(), width=150)
    original = merge.Merge.results

    def results(self, batch):
        address = re.search(r"live page: (http://127\.0\.0\.1:\d+/)", console.file.getvalue())[1]
        for result in original(self, batch):
            with urllib.request.urlopen(address + "data", timeout=10) as answer:
                seen.append((address, json.loads(answer.read())))
            yield result

    monkeypatch.setattr(merge.Merge, "results", results)
    left, right = (str(tmp_path / name) for name in ("left", "right"))
    job = make_job(left, right, on=ON, window=INTERVAL, output=tmp_path / "out")
    summary = embedded.run(job, console, batch=64, watch_port=0)
    address, last = seen[-1]
    assert last["state"] == "ended"
    assert last["totals"]["rows_left"] == summary.left_rows
    assert last["totals"]["matches"] > 0
    assert last["pushes"] > 1
    rows = [data["totals"]["rows_left"] for _, data in seen]
    assert rows == sorted(rows)
    with pytest.raises(OSError):
        urllib.request.urlopen(address, timeout=10)


def test_a_live_page_needs_a_window(tmp_path, inputs):  # noqa: ARG001
    left, right = (str(tmp_path / name) for name in ("left", "right"))
    job = make_job(left, right, on=ON, output=tmp_path / "out")
    with pytest.raises(SpecError, match="--watch"):
        embedded.run(job, Console(quiet=True), watch_port=0)
