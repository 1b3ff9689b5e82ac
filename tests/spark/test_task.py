"""Tasks that die, run twice or come late: every result comes out once, for every join type and routing."""

import itertools
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from spark.streams import HOWS, LONG, Streams, assert_same, embedded
from spark.tasks import ON, WINDOW, Query, assert_right, at, killed, recipe, small_streams

from slidejoin.errors import StateError

pytestmark = pytest.mark.usefixtures("no_sync", "early_merges")
KINDS = list(ON)


@pytest.mark.parametrize("kind", ON)
@pytest.mark.parametrize("how", HOWS)
def test_join_types_and_routings(tmp_path, kind, how):
    streams = small_streams(seed=1, rows=20)
    query = Query(recipe(streams, tmp_path, ON[kind], how, partitions=3))
    assert query.plan.halves[0].partitioning.kind == kind.removeprefix("far ")
    query.all(streams)
    assert len(query.results)
    assert_right(query.results, streams, kind, how)


# --- Death ---


@pytest.mark.parametrize("how", HOWS if LONG else ["inner", "left", "full", "right_semi"])
def test_death_at_every_step(tmp_path, how):
    """Before each file gets its name, and after each table of results: the batch is run again."""
    streams = small_streams(seed=2)
    kind = {"full": "hash", "left": "hash+cells"}.get(how, "cells")
    truth = embedded(streams, ON[kind], WINDOW, how).table
    query = Query(recipe(streams, tmp_path / "state", ON[kind], how))
    for batch in (0, 1):
        query.batch(batch, at(streams, batch))
    shutil.copytree(tmp_path / "state", tmp_path / "before")
    with killed() as killer:
        query.batch(2, at(streams, 2), killer)
    assert killer.steps > 8
    for step in range(killer.steps + 1):
        shutil.rmtree(tmp_path / "state")
        shutil.copytree(tmp_path / "before", tmp_path / "state")
        with killed(step) as killer:
            query.batch(2, at(streams, 2), killer)
        if step % 2:
            query.restart()  # otherwise a worker has died, and its task is tried again
        query.all(streams, first=2)
        assert_same(query.results, truth)


FAULTS = ("worker", "driver", "partitions", "uncommitted", "twins")


@settings(max_examples=400 if LONG else 10)
@given(data=st.data())
def test_any_faults(data):
    """Several in a row, at random steps; twins of tasks that live on until the next batches."""
    kind, how = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(HOWS))
    streams = small_streams(data.draw(st.integers(0, 5)))
    with tempfile.TemporaryDirectory() as folder:
        query = Query(recipe(streams, Path(folder), ON[kind], how, data.draw(st.integers(1, 3))))
        twins = []
        for batch in range(len(streams.left)):
            for fault in data.draw(st.lists(st.sampled_from(FAULTS), max_size=3)):
                if fault == "twins":
                    twins += [task.results() for task in query.tasks(batch, at(streams, batch))]
                    advance(twins, data.draw(st.integers(0, 2)))
                    continue
                step = None if fault == "uncommitted" else data.draw(st.integers(0, 20))
                with killed(step) as killer:
                    query.batch(batch, at(streams, batch), killer)
                if fault == "partitions":
                    query.restart(partitions=data.draw(st.integers(1, 5)))
                elif fault != "worker":
                    query.restart()
            query.batch(batch, at(streams, batch))
            advance(twins, data.draw(st.integers(0, 4)))
        advance(twins, 1000)
        assert_same(query.results, embedded(streams, ON[kind], WINDOW, how).table)


def advance(tasks, tables):
    """Let tasks hand out some tables; they may end."""
    for task in tasks:
        for _ in range(tables):
            next(task, None)


# --- Twins and late attempts ---


@pytest.mark.parametrize("how", ["inner", "left", "full", "right_semi"])
def test_twins_of_a_task(tmp_path, how):
    """Two attempts side by side, by turns: either result will do, and so will either head."""
    streams = small_streams(seed=3)
    query = Query(recipe(streams, tmp_path, ON["hash+cells"], how))
    for batch in range(4):
        both = [[task.results() for task in query.tasks(batch, at(streams, batch))] for _ in range(2)]
        found = ([], [])
        for pair in zip(*both, strict=True):
            for tables in itertools.zip_longest(*pair):
                for number, table in enumerate(tables):
                    found[number].extend([] if table is None else [table])
        query.sink[batch] = found[batch % 2]
        assert_same(pa.concat_tables([query.plan.output.empty_table(), *found[0]]),
                    pa.concat_tables([query.plan.output.empty_table(), *found[1]]))  # fmt: skip
    assert_right(query.results, streams, "hash+cells", how)


@pytest.mark.parametrize("how", HOWS)
def test_an_attempt_that_ends_after_the_next_batch_has_begun(tmp_path, how):
    streams = small_streams(seed=4)
    query = Query(recipe(streams, tmp_path, ON["cells"], how))
    late = []
    for batch in range(4):
        attempts = [task.results() for task in query.tasks(batch, at(streams, batch))]
        advance(attempts, 1)
        query.batch(batch, at(streams, batch)) if batch == 0 else None
        tables = []
        for task in query.tasks(batch, at(streams, batch)):
            tables += task.results()
            advance(late, 1000)  # of the batch before, while this one runs
            late = []
        query.sink[batch] = tables
        late = attempts
    assert_right(query.results, streams, "cells", how)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_twin_that_dies_when_its_batch_is_done(tmp_path, how):
    """At any step: what it leaves is newer than the state of the batch, and is whole or does not count."""
    streams = small_streams(seed=14)
    query = Query(recipe(streams, tmp_path / "state", ON["cells"], how))
    for batch in (0, 1):
        query.batch(batch, at(streams, batch))
    truth = embedded(streams, ON["cells"], WINDOW, how).table
    shutil.copytree(tmp_path / "state", tmp_path / "before")
    for step in range(12):
        with killed(step):
            for task in query.tasks(1, at(streams, 1)):
                list(task.results())
        query.all(streams, first=2)
        assert_same(query.results, truth)
        shutil.rmtree(tmp_path / "state")
        shutil.copytree(tmp_path / "before", tmp_path / "state")


def test_two_runs_of_one_batch(tmp_path):
    """A batch that was complete and not committed, run again with other partitions, then partly once more."""
    streams = small_streams(seed=5, batches=5)
    query = Query(recipe(streams, tmp_path, ON["hash"], "left", partitions=2))
    query.all(Streams(streams.left[:2], streams.right[:2]))
    query.restart(partitions=3)
    query.batch(1, at(streams, 1))
    query.restart(partitions=2)
    list(query.tasks(1, at(streams, 1))[0].results())  # and this run dies before its other partition
    query.restart(partitions=2)
    query.all(streams, first=2)
    assert_right(query.results, streams, "hash", "left")


@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
def test_a_query_that_is_taken_back(tmp_path, how):
    """To an earlier batch, from which on other rows come; one of its batches has no rows at all."""
    first, other = small_streams(seed=6, batches=6), small_streams(seed=7, batches=6)
    query = Query(recipe(first, tmp_path, ON["cells"], how))
    query.all(first)
    late = [task.results() for task in query.tasks(2, at(first, 2))]
    if how != "inner":  # whose state is written at once
        advance(late, 1)
    query.restart()
    empty = [table.slice(0, 0) for table in at(other, 0)]
    mixed = Streams(*(
        [*old[:2], new[2], none, *new[4:]]
        for old, new, none in zip(first.sides, other.sides, empty, strict=True)
    ))  # fmt: skip
    query.sink = {batch: tables for batch, tables in query.sink.items() if batch < 2}
    for batch in (2, 4, 5):  # Spark runs no task for batch 3
        query.batch(batch, at(mixed, batch))
        advance(late, 1000)  # attempts of the earlier run, of which nothing is known any more
    assert_right(query.results, mixed, "cells", how)


# --- Rows that are missing ---


@pytest.mark.parametrize("how", HOWS)
def test_batches_and_partitions_without_rows(tmp_path, how):
    """No task at all, tasks without rows, nulls only, late rows only, one side only."""
    streams = small_streams(seed=8, batches=8)
    sides = []
    for tables in streams.sides:
        rows = list(tables)
        rows[2] = rows[2].slice(0, 0)
        rows[3] = rows[3].set_column(2, "k", pa.nulls(len(rows[3]), pa.int64()))
        rows[4] = rows[4].set_column(1, "ts", rows[0]["ts"])
        sides.append(rows)
    sides[0][6] = sides[0][6].slice(0, 0)
    sides[1][7] = sides[1][7].slice(0, 0)
    streams = Streams(*sides)
    query = Query(recipe(streams, tmp_path, ON["hash+cells"], how, partitions=5))
    for batch in (0, 1, 3, 4, 5, 6, 7):
        query.batch(batch, at(streams, batch))
    assert_right(query.results, streams, "hash+cells", how)
    with_tasks = Query(recipe(streams, tmp_path / "with tasks", ON["hash+cells"], how, partitions=5))
    with_tasks.all(streams)
    assert_same(with_tasks.results, query.results)


def test_first_rows_in_a_later_batch(tmp_path):
    streams = small_streams(seed=9)
    query = Query(recipe(streams, tmp_path, ON["hash"], "left"))
    with pytest.raises(StateError, match=r"batch 7 of query query finds no state.*startEmpty=true"):
        query.batch(7, at(streams, 0))
    query.restart(start_empty=True)
    for batch in range(4):
        query.batch(7 + batch, at(streams, batch))
    assert_right(query.results, streams, "hash", "left")


# --- Readers that stop ---


@pytest.mark.parametrize("how", HOWS)
def test_a_reader_that_stops_early(tmp_path, how, monkeypatch):
    """The next batch of an inner join goes on; others say which batch and partitions were not read."""
    monkeypatch.setattr("slidejoin.spark.meet.ROWS", 3)
    monkeypatch.setattr("slidejoin.spark.task.ROWS", 3)
    monkeypatch.setattr("slidejoin.spark.task.SMALL", 1)
    streams = small_streams(seed=10, rows=60)
    kind = "hash" if how == "inner" or how.endswith("semi") else "far cells"
    query = Query(recipe(streams, tmp_path, ON[kind], how))
    for batch in (0, 1):
        query.batch(batch, at(streams, batch))
    for task in query.tasks(2, at(streams, 2)):
        results = task.results()
        next(results, None)
        results.close()
    if how == "inner":
        query.batch(3, at(streams, 3))
        truth = embedded(streams, ON["hash"], WINDOW, how).table
        new = {pair for pair in zip(*(truth[name].to_pylist() for name in ("id", "id_right")), strict=True)
               if "3" in (pair[0][4], pair[1][5])}  # fmt: skip
        found = query.results
        assert len(new) > 50
        assert new <= set(zip(found["id"].to_pylist(), found["id_right"].to_pylist(), strict=True))
        return
    message = r"partition 0 of 2 .* cannot go on from batch 2: partitions .* left no state.*take\(\)"
    with pytest.raises(StateError, match=message):
        query.batch(3, at(streams, 3))


def test_a_partition_that_nobody_read(tmp_path):
    streams = small_streams(seed=11)
    query = Query(recipe(streams, tmp_path, ON["hash"], partitions=3))
    query.batch(0, at(streams, 0))
    list(query.tasks(1, at(streams, 1))[1].results())
    message = (
        r"partition 0 of 3 in batch 2 of query query cannot go on from batch 1: partitions \[0, 2\] of 3"
    )
    with pytest.raises(StateError, match=message):
        query.batch(2, at(streams, 2))


# --- Places that are taken ---


def test_two_joins_of_one_name(tmp_path):
    """One after the other, or both at once: then the next batch says so."""
    streams = small_streams(seed=12)
    one, two = (Query(recipe(streams, tmp_path, ON["hash"])) for _ in range(2))
    one.batch(0, at(streams, 0))
    with pytest.raises(StateError, match=r"two joins of query query have one name.*join\(..., name=...\)"):
        two.batch(0, at(streams, 0))
    with pytest.MonkeyPatch.context() as patch:  # each looks before the other has written
        patch.setattr("slidejoin.spark.task.check_alone", lambda *_: None)
        two.batch(0, at(streams, 0))
    for query in (one, two):
        with pytest.raises(StateError, match="two joins of query query have one name"):
            query.batch(1, at(streams, 1))


def test_rows_and_tasks_of_another_partition(tmp_path):
    streams = small_streams(seed=13)
    query = Query(recipe(streams, tmp_path, ON["hash"]))
    rows = [task._batches for task in query.tasks(0, at(streams, 0))]
    with pytest.raises(StateError, match=r"got rows of another partition: coalesce\(\) or union\(\)"):
        list(query.task(0, 0, rows[1]).results())
    first = query.task(0, 0, [])
    list(first.results())
    again = query.task(0, 0, [])
    again._place = first._place
    with pytest.raises(StateError, match=r"runs twice in one task: coalesce\(\).*use repartition\(\)"):
        list(again.results())
