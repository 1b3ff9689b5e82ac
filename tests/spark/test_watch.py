"""The live page of a query on Spark: a point for every micro-batch, and the end."""

import json
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

import slidejoin as sj
from slidejoin.errors import SpecError

pytest.importorskip("pyspark")

from spark.streams import embedded, random_streams, run

from slidejoin.page.feed import Point
from slidejoin.spark import join, watch
from slidejoin.spark.watch import QueryFeed

WINDOW = sj.interval("3s", "2s", time="ts", lateness="3s")


def fetched(page, path):
    with urllib.request.urlopen(page.url + path, timeout=10) as answer:
        return answer.read().decode()


def test_the_page_of_a_query(spark, tmp_path):
    streams = random_streams(seed=31)
    joined = join(
        *streams.write(tmp_path / "in").read(spark),
        sj.equal("sym"),
        WINDOW,
        partitions=2,
        state_dir=tmp_path / "state",
    )
    _, query = run(joined, tmp_path)
    truth = embedded(streams, sj.equal("sym"), WINDOW, "inner").stats[-1]
    with watch(query) as page:
        page._take()
        found = json.loads(fetched(page, "data"))
        metrics = {
            (sample.name, sample.labels.get("side")): sample.value
            for family in parse(fetched(page, "metrics"))
            for sample in family.samples
        }
    points = [Point(*point) for point in found["points"]]
    assert len(points) == found["pushes"] == len(streams.left)
    assert (found["state"], found["reason"]) == ("ended", "stopped")
    assert found["title"] == "equal('sym')"
    assert found["unit"] == "micro-batch"
    assert dict(found["explanation"])["partitions"].startswith("2: ")
    for name in ("matches", "late_left", "late_right", "null_left", "null_right"):
        assert found["totals"][name] == truth[name], name
    rows = sum(table.num_rows for table in streams.left)
    assert found["totals"]["rows_left"] == metrics["slidejoin_rows_total", "left"] == rows
    assert metrics["slidejoin_matches_total", None] == truth["matches"]
    assert metrics["slidejoin_ended", None] == 1
    assert all(point.rows_left > 0 and point.p99 > 0 and point.stored_left > 0 for point in points)
    assert points[0].stored_right is None
    assert all(point.memory > 0 for point in points)
    assert [point.time for point in points] == sorted(point.time for point in points)


class Query:
    """A query that is not Spark's: what a page asks of one."""

    def __init__(self):
        self.id, self.name, self.recentProgress = "0-0", "near", ()
        self.isActive, self.error = True, None
        self.status = {"isTriggerActive": False, "isDataAvailable": False}

    def exception(self):
        if isinstance(self.error, BaseException):
            raise self.error
        return self.error


def test_how_a_query_stands(tmp_path):
    query = Query()
    feed = QueryFeed(query, tmp_path, "join")

    def state():
        assert feed.points() == []
        described = feed.describe()
        assert json.loads(json.dumps(described))["facts"][0] == ["Query", "near"]
        return described["state"], described["reason"]

    assert state() == ("idle", "")
    query.status = {"isTriggerActive": True, "isDataAvailable": True}
    assert state() == ("running", "")
    query.isActive, query.error = False, "Job aborted.\nslidejoin.errors.StateError: a run is gone\n"
    assert state() == ("failed", "a run is gone")
    query.isActive = True
    assert state()[0] == "failed", "the end is the end"


def test_a_session_that_has_stopped_is_the_end(tmp_path):
    query = Query()
    query.isActive, query.error = False, ConnectionError("no gateway")
    feed = QueryFeed(query, tmp_path, "join")
    feed.points()
    assert feed.describe()["reason"] == "Spark has stopped"


def test_only_queries_are_watched():
    with pytest.raises(SpecError, match=r"slidejoin\.watch"):
        watch("query")
