"""The state of a join over time: other numbers of partitions, merged runs, and files that are removed."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from spark.streams import HOWS, LONG, SECOND, Streams, assert_same, embedded, times
from spark.tasks import ON, WINDOW, Query, assert_right, at, killed, recipe, routed, small_streams

import slidejoin as sj
from slidejoin.errors import StateError
from slidejoin.spark import live, state, task
from slidejoin.spark.files import LocalFolder
from slidejoin.spark.heads import StoredRun
from slidejoin.spark.live import FAN, Live, to_merge
from slidejoin.spark.marks import batches
from slidejoin.spark.tidy import tidy

pytestmark = pytest.mark.usefixtures("no_sync")


# --- Other numbers of partitions ---


@pytest.mark.parametrize("kind", ON)
@pytest.mark.parametrize("how", HOWS)
def test_rescaling(tmp_path, kind, how):
    """From 2 to 5, back, to 3 and to 1; the first batch after each change dies once before it works."""
    streams = small_streams(seed=31, batches=5, rows=14)
    query = Query(recipe(streams, tmp_path, ON[kind], how, partitions=2))
    for batch, count in enumerate((2, 5, 2, 3, 1)):
        query.restart(partitions=count)
        with killed(3 * batch) as killer:
            query.batch(batch, at(streams, batch), killer)
        if batch % 2:
            query.restart()
        query.batch(batch, at(streams, batch))
    assert_right(query.results, streams, kind, how)


@pytest.mark.parametrize("key", [-150, -149, 0, 1, 49, 50, 149, 150])
def test_the_watermark_is_that_of_all_partitions(tmp_path, key):
    """One row of the left side is far ahead, in any partition; after the change only right rows come."""
    streams = small_streams(seed=34, batches=5)
    ahead = pa.table([["ahead"], times([100 * SECOND]), [key], ["a"]], schema=streams.schemas[0])
    left = [pa.concat_tables([streams.left[0], ahead]), *(table.slice(0, 0) for table in streams.left[1:])]
    streams = Streams(left, streams.right)
    query = Query(recipe(streams, tmp_path, ON["hash"], "full"))
    for batch, count in enumerate((2, 3, 3, 2, 2)):
        query.restart(partitions=count)
        query.batch(batch, at(streams, batch))
    assert_right(query.results, streams, "hash", "full")


def test_a_change_that_is_taken_back(tmp_path):
    """A batch dies with another number of partitions, and runs with the old one; then with a third."""
    streams = small_streams(seed=32, batches=5)
    query = Query(recipe(streams, tmp_path, ON["cells"], "full", partitions=3))
    for batch in range(5):
        for count in (4, 3, 2)[batch % 3 :]:
            query.restart(partitions=count)
            with killed(5 + batch) as killer:
                query.batch(batch, at(streams, batch), killer)
        query.batch(batch, at(streams, batch))
    assert_right(query.results, streams, "cells", "full")


# --- Merging ---


@given(st.lists(st.integers(1, 2000), max_size=60))
def test_runs_of_like_size_are_merged(sizes):
    """As rows come, there are a few runs of each size, and each row is copied a few times."""
    kept, copied = [], 0
    for size in sizes:
        kept.append(size)
        while (count := to_merge(kept)) > 1:
            assert FAN <= count <= len(kept)
            copied += sum(kept[-count:])
            kept = [*kept[:-count], sum(kept[-count:])]
    assert sum(kept) == sum(sizes)
    levels = np.log2(max(sum(sizes), 2))
    assert len(kept) <= FAN * (levels + 1)
    assert copied <= sum(sizes) * (levels + 1)


def test_a_merged_run_is_not_too_large():
    half = live.LARGEST // 2
    assert to_merge([half] * 6) == 0
    assert to_merge([half // 2] * 6) == 4
    assert to_merge([half, half, 1, 1, 1, 1]) == 4


def tiny_streams(batches, rows=3):
    """A second in each micro-batch, in order; most keys find partners, some of them much later."""
    rng = np.random.default_rng(33)

    def table(side, batch):
        columns = {
            "id": [f"{side}{batch}-{row}" for row in range(rows)],
            "ts": times((batch + np.sort(rng.random(rows))) * SECOND),
            "k": pa.array(rng.integers(0, 60, rows), pa.int64()),
            "sym": pa.array(rng.choice(["a", "b"], rows)),
        }
        return pa.table(columns)

    return Streams(*([table(side, batch) for batch in range(batches)] for side in ("left", "right")))


@pytest.mark.parametrize("how", HOWS if LONG else ["left", "full", "right_semi", "left_anti"])
def test_many_small_batches(tmp_path, monkeypatch, how):
    """Bits of rows survive merges, rows that are over leave merged runs, and runs stay few."""
    monkeypatch.setattr("slidejoin.spark.meet.ROWS", 2)
    batches = 200 if LONG else 45
    streams = tiny_streams(batches)
    window = sj.interval("20s", "15s", time="ts", lateness="1s")
    query = Query(recipe(streams, tmp_path, ON["hash"], how, partitions=1, window=window))
    most = 0
    for batch in range(batches):
        query.batch(batch, at(streams, batch))
        (path,) = (tmp_path / "query" / "join" / "heads" / f"{batch:012d}").glob("*.head")
        sides = [side for half in json.loads(path.read_text())["runs"] for side in half]
        most = max(most, *(sum(run["rows"] for run in side) for side in sides))
        assert all(len(side) <= 3 * FAN for side in sides)
    assert most <= 1.5 * 3 * (20 + 15 + 2), "what the window holds, and a little more"
    assert_same(query.results, embedded(streams, ON["hash"], window, how).table)


# --- Housekeeping ---


def named_files(folder):
    """Runs and bits that the heads of a folder name, by batch."""
    found = {}
    for path in (folder / "heads").rglob("*.head"):
        for half in json.loads(path.read_text())["runs"]:
            names = {run[kind] for side in half for run in side for kind in ("file", "bits") if run[kind]}
            found.setdefault(int(path.parent.name), set()).update(names)
    return found


def test_old_files_are_removed(tmp_path, monkeypatch):
    """Whatever a kept head names stays, for each number of partitions; old heads and leftovers go."""
    monkeypatch.setattr(task, "TIDY", 4)
    monkeypatch.setattr(tidy, "__defaults__", (6,))
    streams = tiny_streams(40)
    query = Query(
        recipe(
            streams, tmp_path, ON["hash"], "left", window=sj.interval("9s", "7s", time="ts", lateness="1s")
        )
    )
    folder = tmp_path / "query" / "join"
    for batch in range(40):
        if batch % 7 == 5:
            with killed(batch % 5) as killer:
                query.batch(batch, at(streams, batch), killer)
            query.restart(partitions=1 + batch % 3)
        query.batch(batch, at(streams, batch))
        named = named_files(folder)
        assert all((folder / name).exists() for names in named.values() for name in names)
        assert set(range(max(0, batch - 6), batch + 1)) <= named.keys()
        assert min(named) >= batch - 6 - 4
        there = {int(path.parent.name) for path in (folder / "runs").rglob("*") if path.is_file()}
        assert min(there) >= batch - 6 - 4 - 2 * 17
    old = {str(path.relative_to(folder)) for path in (folder / "runs").rglob("*.*")
           if path.is_file() and int(path.parent.name) < 40 - 6 - 4}  # fmt: skip
    assert old <= set.union(*named.values())
    assert not [path for path in folder.rglob("*") if path.is_dir() and not any(path.iterdir())]
    window = query.plan.spec.window
    assert_same(query.results, embedded(streams, ON["hash"], window, "left").table)


def test_a_base_is_kept_however_old_it_is(tmp_path, monkeypatch):
    """Batches without rows for the join do not count: the last state stays."""
    monkeypatch.setattr(task, "TIDY", 4)
    monkeypatch.setattr(tidy, "__defaults__", (6,))
    streams = small_streams(seed=35)
    query = Query(recipe(streams, tmp_path, ON["hash"], "full"))
    for number, batch in enumerate((0, 101, 202, 303)):
        query.batch(batch, at(streams, number))
    assert_right(query.results, streams, "hash", "full")
    assert sorted(batches(LocalFolder(str(tmp_path / "query" / "join")))) == [202, 303]


def test_tasks_that_clean_up_at_once(tmp_path, monkeypatch):
    """Each sees the other's work half done: files that are gone between two looks are no error."""
    monkeypatch.setattr(task, "TIDY", 1000)
    streams = tiny_streams(20)
    query = Query(recipe(streams, tmp_path, ON["hash"], "left"))
    for batch in range(19):
        query.batch(batch, at(streams, batch))

    class Shared(LocalFolder):
        """After every look at the folder another task cleans up as well."""

        looks = 0

        def names(self, folder):
            found = super().names(folder)
            Shared.looks += 1
            if Shared.looks % 3 == 0:
                tidy(LocalFolder(self.path), 18, 5)
            return found

    place = str(tmp_path / "query" / "join")
    tidy(Shared(place), 18, 6)
    tidy(LocalFolder(place), 18, 6)
    assert batches(LocalFolder(place)) == [13, 14, 15, 16, 17, 18]
    query.batch(19, at(streams, 19))
    assert_same(query.results, embedded(streams, ON["hash"], WINDOW, "left").table)


def test_cleaning_up_stops_at_a_damaged_head(tmp_path, monkeypatch):
    """It does not know what that one names, so it removes nothing; the query goes on."""
    monkeypatch.setattr(task, "TIDY", 2)
    monkeypatch.setattr(tidy, "__defaults__", (3,))
    streams = tiny_streams(12)
    query = Query(recipe(streams, tmp_path, ON["hash"]))
    folder = tmp_path / "query" / "join"
    for batch in range(8):
        query.batch(batch, at(streams, batch))
    next(iter((folder / "heads" / f"{5:012d}").glob("*.head"))).write_text("{")
    before = set(folder.rglob("*.arrow"))
    with pytest.raises(StateError, match="is damaged"):
        tidy(LocalFolder(str(folder)), 8, 3)
    query.batch(8, at(streams, 8))
    assert before <= set(folder.rglob("*.arrow"))


# --- Large and old runs ---


def test_new_rows_in_blocks(tmp_path, monkeypatch):
    """More than can be sorted together: several new runs meet each other, too."""
    monkeypatch.setattr(task, "BLOCK", 1)
    streams = small_streams(31)
    for how in ("inner", "full", "left_semi"):
        query = Query(recipe(streams, tmp_path / how, ON["cells"], how))
        for batch in range(4):
            found = []
            for partition, rows in enumerate(routed(query.plan, at(streams, batch))):
                cut = [each.slice(i, 5) for each in rows for i in range(0, each.num_rows, 5)]
                found += query.task(batch, partition, cut).results()
            query.sink[batch] = found
        assert_same(query.results, embedded(streams, ON["cells"], WINDOW, how).table)


def test_wide_rows_are_not_merged_beyond_a_size(monkeypatch):
    monkeypatch.setattr(live, "LARGEST", 64)
    small = Live(None, None, StoredRun("", 0, 10, 10, 0, 0, 0))
    wide = Live(None, None, StoredRun("", 0, 2**15, 10, 0, 0, 0))
    assert live.to_merge([run.weight for run in [small] * 6]) == 6
    assert live.to_merge([run.weight for run in [wide] * 6]) == 0


def test_rows_that_are_over_leave_large_runs(tmp_path, monkeypatch):
    """A few rows of the far future in each batch keep their runs, which are too large to be merged."""
    monkeypatch.setattr(live, "LARGEST", 4)
    rng = np.random.default_rng(5)

    def table(side, batch, far):
        seconds = (batch + rng.random(20)) * 5
        seconds[0] = 10**6 if far else seconds[0]
        ids = [f"{side}{batch}-{row}" for row in range(20)]
        columns = {"id": ids, "ts": times(seconds * SECOND), "k": rng.integers(0, 9, 20), "sym": ["a"] * 20}
        return pa.table(columns)

    streams = Streams(*([table(s, b, s == "left") for b in range(30)] for s in ("left", "right")))
    for how in ("inner", "left"):
        query = Query(recipe(streams, tmp_path / how, ON["hash"], how))
        query.all(streams)
        assert_same(query.results, embedded(streams, ON["hash"], WINDOW, how).table)
        assert sum(run.rows for run in state(tmp_path / how) if run.side == "left") < 30 + 5 * 20
