"""A side that falls silent: what idle_after does to the watermark, by the clock of micro-batches."""

import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from spark.streams import Streams
from spark.tasks import ON, WINDOW, Query, recipe, routed

from slidejoin.spec import join_spec

pytestmark = pytest.mark.usefixtures("no_sync")

IDLE = sj.interval("3s", "2s", time="ts", lateness="3s", idle_after="60s")


def rows(side, *seconds, keys=None):
    columns = {
        "id": pa.array([f"{side}-{second}" for second in seconds], pa.string()),
        "ts": pa.array([second * 10**6 for second in seconds], pa.timestamp("us", "UTC")),
        "k": pa.array(keys or [0] * len(seconds), pa.int64()),
        "sym": pa.array(["a"] * len(seconds), pa.string()),
    }
    return pa.table(columns)


@pytest.fixture
def new_query(tmp_path):
    def new_query(window=IDLE, partitions=1):
        empty = Streams([rows("l")], [rows("r")])
        return Query(recipe(empty, tmp_path, ON["hash"], "inner", partitions, window))

    return new_query


def ran(query, batch, left, right, clock):
    """Run a micro-batch at a time of day; its watermark in seconds, and how many rows were late."""
    late = 0
    for partition, crossed in enumerate(routed(query.plan, [left, right])):
        timed = []
        for part in crossed:
            place = 1 + query.plan.hashes
            now = pa.array([clock * 10**6] * part.num_rows, pa.int64())
            columns = [*part.columns[:place], now, *part.columns[place:]]
            timed.append(pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))]))
        task = query.task(batch, partition, timed)
        list(task.results())
        late += task._figures["late_left"] + task._figures["late_right"]
    return None if task._watermark is None else task._watermark // 10**6, late


def test_a_silent_side_does_not_hold_the_watermark_back(new_query):
    query = new_query()
    ran(query, 0, rows("l", 100), rows("r", 100), 1000)
    marks = [ran(query, n, rows("l", 100 + 30 * n), rows("r"), 1000 + 30 * n)[0] for n in range(1, 5)]
    assert marks == [97, 97, 157, 187], "silent for 60 s in batch 2, which the next one knows"


def test_micro_batches_that_are_far_apart(new_query):
    """Farther than the patience: the other side is silent nonetheless."""
    query = new_query()
    ran(query, 0, rows("l", 100), rows("r", 100), 1000)
    marks = [ran(query, n, rows("l", 100 + 90 * n), rows("r"), 1000 + 90 * n)[0] for n in range(1, 4)]
    assert marks == [97, 187, 277]


def test_after_a_stop_nobody_was_silent(new_query):
    query = new_query()
    ran(query, 0, rows("l", 100), rows("r", 100), 1000)
    query.restart()
    ran(query, 1, rows("l", 3000), rows("r"), 4600)
    assert ran(query, 2, rows("l", 3001), rows("r", 101, 2000), 4601) == (97, 0)


def test_partitions_that_come_late_do_not_speak_for_the_silent_side(new_query):
    query = new_query(partitions=4)
    ran(query, 0, rows("l", 100), rows("r", 100), 1000)
    keys = [0, 1, 49, 50, 149]
    marks = [
        ran(query, n, rows("l", 100 + 59 * n, keys=[key]), rows("r"), 1000 + 59 * n)[0]
        for n, key in enumerate(keys, 1)
    ]
    assert marks == [97, 97, 215, 274, 333]


def test_idle_after_that_is_taken_away_and_given_again(new_query):
    query = new_query()
    ran(query, 0, rows("l", 100), rows("r", 100), 1000)
    query.restart(spec=join_spec(ON["hash"], WINDOW, "inner", order="none"))
    query.batch(1, [rows("l", 1000), rows("r", 1000)])
    query.restart(spec=join_spec(ON["hash"], IDLE, "inner", order="none"))
    ran(query, 2, rows("l", 1010), rows("r"), 1910)
    assert ran(query, 3, rows("l", 1011), rows("r", 1001), 1911) == (997, 0)
