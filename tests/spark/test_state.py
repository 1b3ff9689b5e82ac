"""``state`` lists the runs of a state directory and reads their rows; ``metrics`` reads the figures there."""

import dataclasses
import re
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from spark.streams import SECOND, SIDES, Streams, counted, embedded, times
from spark.tasks import ON, WINDOW, Query, at, recipe, small_streams

from slidejoin.errors import StateError
from slidejoin.spark import StateRun, metrics, state

pytestmark = pytest.mark.usefixtures("no_sync")


def ids(runs, side):
    """Ids of the rows of a side, each as often as it is there."""
    return Counter(id_ for run in runs if run.side == side for id_ in run.read()["id"].to_pylist())


def rows_of(streams, side, batches):
    """Ids of the rows of a side that can match, without a null."""
    found = Counter()
    for table in streams.sides[side][:batches]:
        valid = pc.and_(pc.is_valid(table["k"]), pc.is_valid(table["ts"]))
        found.update(table.filter(valid)["id"].to_pylist())
    return found


def test_runs_and_their_rows(tmp_path):
    """Nothing is old enough to be gone: all rows are there, in their own columns, in Arrow files."""
    streams = small_streams(seed=81)
    window = sj.interval("100s", "100s", time="ts", lateness="100s")
    query = Query(recipe(streams, tmp_path, ON["hash"], window=window))
    query.all(streams)
    runs = state(tmp_path)
    assert {(run.query, run.join, run.batch) for run in runs} == {("query", "join", 3)}
    assert {(run.partition, run.side) for run in runs} == {
        (0, "left"),
        (0, "right"),
        (1, "left"),
        (1, "right"),
    }
    assert runs == sorted(runs, key=lambda run: run.partition)
    for run in runs:
        table = run.read()
        assert table.schema == streams.schemas[SIDES.index(run.side)], "an inner join notes no matches"
        assert len(table) == run.rows > 0
        with pa.memory_map(str(tmp_path / run.file)) as file:
            stored = pa.ipc.open_file(file).read_all()
        assert stored.select(table.column_names) == table
        assert all(name.startswith("#") for name in stored.column_names[table.num_columns :])
    for number, side in enumerate(SIDES):
        assert ids(runs, side) == rows_of(streams, number, 4)
    assert "_read" not in repr(runs[0])
    assert [field.name for field in dataclasses.fields(StateRun)][:7] == [
        *("query", "join", "batch", "partition", "side", "rows", "file")
    ]


@pytest.mark.parametrize("how", ["left", "right_semi", "left_anti", "full"])
def test_matched_rows(tmp_path, how):
    """The column is there for every run of a side that needs it, also before its first match."""
    streams = small_streams(seed=82, batches=3)
    query = Query(recipe(streams, tmp_path, ON["hash"], how))
    query.all(streams)
    needed = {"left": ["left"], "left_anti": ["left"], "right_semi": ["right"], "full": ["left", "right"]}[
        how
    ]
    pairs = embedded(streams, ON["hash"], WINDOW).table
    met = {"left": set(pairs["id"].to_pylist()), "right": set(pairs["id_right"].to_pylist())}
    flags = set()
    for run in state(tmp_path):
        table = run.read()
        assert ("matched" in table.column_names) == (run.side in needed)
        if run.side in needed:
            for id_, matched in zip(table["id"].to_pylist(), table["matched"].to_pylist(), strict=True):
                assert matched == (id_ in met[run.side])
                flags.add(matched)
    assert flags == {True, False}


def test_no_row_has_matched_yet(tmp_path):
    left = pa.table({"id": ["a"], "ts": times([SECOND]), "k": [1], "sym": ["a"]})
    streams = Streams([left], [left.slice(0, 0)])
    Query(recipe(streams, tmp_path, ON["hash"], "left")).all(streams)
    (run,) = state(tmp_path)
    assert run.read().to_pylist() == [{**left.to_pylist()[0], "matched": False}]


def test_names_of_columns(tmp_path):
    """A user's columns may be named as ours are, or not at all."""
    table = pa.table([["a"], times([SECOND]), [1], ["x"]], ["#key", "ts", "k", ""])
    streams = Streams([table], [table])
    Query(recipe(streams, tmp_path, ON["hash"])).all(streams)
    for run in state(tmp_path):
        assert run.read() == table


def test_an_earlier_batch(tmp_path):
    streams = small_streams(seed=83)
    window = sj.interval("100s", "100s", time="ts", lateness="100s")
    query = Query(recipe(streams, tmp_path, ON["hash"], window=window))
    for batch in (0, 1, 3):  # the join had no rows in batch 2
        query.batch(batch, at(streams, batch))
    for batch, last in ((0, 0), (1, 1), (2, 1), (3, 3), (9, 3), (None, 3)):
        runs = state(tmp_path, batch=batch)
        assert {run.batch for run in runs} == {last}
    for number, side in enumerate(SIDES):
        assert ids(state(tmp_path, 2), side) == rows_of(streams, number, 2)
    assert state(tmp_path, -1) == []


def test_no_state(tmp_path):
    assert state(tmp_path) == state(tmp_path / "nowhere") == state(str(tmp_path)) == []
    (tmp_path / "a file").write_text("of somebody else")
    (tmp_path / "folder" / "in it").mkdir(parents=True)
    assert state(tmp_path) == []


def test_several_joins(tmp_path):
    streams = small_streams(seed=84, batches=1)
    for name, id_ in (("one", "query"), ("two", "query"), ("one", "another")):
        Query(recipe(streams, tmp_path, ON["hash"], name=name), id=id_).all(streams)
    found = [(run.query, run.join) for run in state(tmp_path)]
    assert list(dict.fromkeys(found)) == [("another", "one"), ("query", "one"), ("query", "two")]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_batch_that_is_under_way(tmp_path, how):
    """What is listed is the state that all partitions have completed."""
    streams = small_streams(seed=85, batches=2)
    query = Query(recipe(streams, tmp_path, ON["hash"], how))
    query.batch(0, at(streams, 0))
    before = state(tmp_path)
    one, _ = query.tasks(1, at(streams, 1))
    assert list(one.results())
    assert state(tmp_path) == before
    assert {run.batch for run in before} == {0}
    query.batch(1, at(streams, 1))
    assert {run.batch for run in state(tmp_path)} == {1}


def test_a_batch_that_ran_twice(tmp_path):
    """After a restart with fewer partitions neither rows nor figures of both cuts are mixed."""
    streams = small_streams(seed=86, batches=2)
    window = sj.interval("100s", "100s", time="ts", lateness="100s")
    query = Query(recipe(streams, tmp_path, ON["hash"], partitions=5, window=window))
    query.all(streams)
    query.restart(partitions=2)
    query.batch(1, at(streams, 1))
    query.batch(1, at(streams, 1))
    runs = state(tmp_path)
    assert {run.partition for run in runs} == {0, 1}
    for number, side in enumerate(SIDES):
        assert ids(runs, side) == rows_of(streams, number, 2)
    last = metrics("query", tmp_path)["joins"]["join"]["last"]
    assert last["partitions"] == 2
    assert (last["rows_left"], last["rows_right"]) == (len(streams.left[1]), len(streams.right[1]))
    assert last["stored"] == sum(run.rows for run in runs)


def test_a_damaged_run(tmp_path):
    streams = small_streams(seed=87, batches=1)
    Query(recipe(streams, tmp_path, ON["hash"])).all(streams)
    one, two, *_ = state(tmp_path)
    (tmp_path / one.file).unlink()
    content = bytearray((tmp_path / two.file).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / two.file).write_bytes(content)
    with pytest.raises(StateError, match="is gone"):
        one.read()
    with pytest.raises(StateError, match="is damaged"):
        two.read()
    assert counted(state(tmp_path)[2].read())


def test_layout(tmp_path):
    """The files that docs/spark.md names, and no others."""
    streams = small_streams(seed=88, batches=2)
    Query(recipe(streams, tmp_path, ON["hash"], "left")).all(streams)
    kinds = Counter()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            query, join, folder, batch, name = path.relative_to(tmp_path).parts
            assert (query, join) == ("query", "join")
            assert re.fullmatch(r"00000000000[01]", batch)
            pattern = {"heads": r"([01]-2-.+\.(head|figures)|.+\.begun)", "runs": r"[01]-.+\.(arrow|bits)"}
            assert re.fullmatch(pattern[folder], name)
            kinds[path.suffix] += 1
    assert kinds[".head"] == kinds[".figures"] == 4
    assert kinds[".begun"] == 4
    assert kinds[".arrow"] >= 4
    assert kinds[".bits"] >= 1
