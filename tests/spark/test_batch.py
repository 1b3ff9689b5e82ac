"""Groups of batches that fit neither memory nor one slice of time: the rows are the same, files go."""

import itertools
import tempfile

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.errors import StateError

pytest.importorskip("pyspark")

from spark.streams import LONG, Streams, assert_same, embedded_whole, random_streams
from spark.test_spark_oracle import CONDITIONS, JOINS

from slidejoin.spark import batch, tasks
from slidejoin.spark.prepare import prepare

WINDOWS = (
    sj.interval("1s", "500ms", time="ts"),
    sj.interval("-1s", "4s", time="ts"),
    sj.within("1ms", time="ts"),
    sj.interval("200000d", "200000d", time="ts"),
)


def grouped(spark, tmp_path, streams, on, window, how, groups=3, rows=40):
    """A recipe, and the blobs that its groups get, as Spark sorts them."""
    files = Streams([streams.left[0]], [streams.right[0]]).write(tmp_path / "in")
    whole = files.read_whole(spark)
    recipe = prepare(*whole, on, window, how, ("", "_right"), partitions=groups, event_time=None).recipe
    text = recipe.to_json()
    found = []
    for side, tables in enumerate(streams.sides):
        for part in itertools.chain(*(table.to_batches(max_chunksize=rows) for table in tables)):
            for routed in tasks.route_rows(text, side, iter([part])):
                found += routed.select(["group", "side", "data"]).to_pylist()
    homes = {id_: recipe.half(number)[0].home for number, id_ in enumerate(recipe.ids)}
    found.sort(key=lambda row: (row["group"], row["side"] != homes[row["group"]]))
    return recipe, text, found


def batches(rows, size):
    """Rows as Arrow batches, whose ends fall anywhere in groups."""
    schema = pa.schema([("group", pa.int32()), ("side", pa.int8()), ("data", pa.binary())])
    table = pa.Table.from_pylist(rows, schema=schema)
    return table.to_batches(max_chunksize=size)


LIMITS = ((1, 1), (3000, 7), (2**26, 2**14))


def test_groups_of_any_size(spark, tmp_path, monkeypatch):
    made, real = [], tempfile.TemporaryFile

    def file(*args, **options):
        made.append(real(*args, **options))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", file)
    streams = random_streams(seed=91, rows=60 if LONG else 30)
    for number, (name, how) in enumerate(JOINS):
        on, window = CONDITIONS[name][0], WINDOWS[number % len(WINDOWS)]
        recipe, text, rows = grouped(spark, tmp_path / str(number), streams, on, window, how)
        expected = embedded_whole(streams, on, window, how)
        for limit, length in LIMITS:
            monkeypatch.setattr(batch, "LIMIT", limit)
            monkeypatch.setattr(batch, "SLICE", length)
            made.clear()
            found = list(batch.join_groups(text, iter(batches(rows, 5))))
            assert_same(pa.Table.from_batches(found, recipe.output), expected)
            assert bool(made) == (limit < 10**4), "files only where memory does not do"
            assert all(file.closed for file in made)


def test_rows_that_are_not_sorted_are_refused(spark, tmp_path):
    streams = random_streams(seed=92, batches=1)
    on = CONDITIONS["band"][0]
    _, text, rows = grouped(spark, tmp_path, streams, on, WINDOWS[0], "inner")
    with pytest.raises(StateError, match="came twice; its rows were not sorted"):
        list(batch.join_groups(text, iter(batches(rows + rows[:1], 100))))
