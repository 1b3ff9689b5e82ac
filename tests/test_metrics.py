"""Metrics of joins: right, readable by prometheus_client, and there for any thread while a push runs."""

import datetime as dt
import itertools
import math
import re
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

import slidejoin as sj
from slidejoin.errors import SpecError
from slidejoin.metrics import _FAMILIES

PARSERS = {"prometheus": parse_prometheus, "openmetrics": parse_openmetrics}


def samples(text, format_="prometheus"):
    """The numbers of a text, by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in PARSERS[format_](text)
        for sample in family.samples
    }


def event_join():
    join = sj.WindowJoin(
        sj.equal("k") & sj.band("x", within=1), sj.interval("5s", "5s", time="ts", lateness="1s"), how="left"
    )
    start = dt.datetime(2024, 3, 1, 9, 30)
    rows = {
        "k": ["a", None, "b", "a"],
        "x": [1.0, 2.0, 3.0, 4.0],
        "ts": [start + dt.timedelta(seconds=s) for s in (0, 1, 20, 2)],
    }
    join.push(left=rows)
    join.push(right=rows)
    join.push(left={name: values[-1:] for name, values in rows.items()})
    return join


@pytest.mark.parametrize("format_", PARSERS)
def test_the_numbers_are_those_of_stats(format_):
    join = event_join()
    found, stats = samples(join.metrics(format_), format_), join.stats
    for name, metric in (
        ("rows", "slidejoin_rows_total"),
        ("late", "slidejoin_late_rows_total"),
        ("null", "slidejoin_null_rows_total"),
        ("stored", "slidejoin_stored_rows"),
    ):
        for side in ("left", "right"):
            assert found[metric, ("side", side)] == stats[f"{name}_{side}"], (metric, side)
    assert stats["late_left"] > 0
    assert stats["null_right"] > 0
    assert found["slidejoin_matches_total",] == stats["matches"] > 0
    assert found["slidejoin_memory_bytes",] == stats["memory_bytes"] > 0
    assert (
        found["slidejoin_watermark_timestamp_seconds",]
        == stats["watermark"].replace(tzinfo=dt.UTC).timestamp()
    )
    behind = found["slidejoin_watermark_delay_seconds",]
    assert behind == pytest.approx(time.time() - found["slidejoin_watermark_timestamp_seconds",], abs=60)
    assert found["slidejoin_push_duration_seconds_count",] == 3
    assert found["slidejoin_push_duration_seconds_bucket", ("le", "+Inf")] == 3
    assert found["slidejoin_push_recent_seconds_count",] == 3
    assert 0 < found["slidejoin_push_recent_seconds", ("quantile", "0.5")] < 60
    assert found["slidejoin_rows_per_second",] > 0
    assert found["slidejoin_index_info", ("index", join.index)] == 1
    assert found["slidejoin_workers",] == 1
    assert found["slidejoin_ended",] == 0


def test_the_histogram_only_grows_to_the_right():
    join = event_join()
    buckets = [
        value
        for key, value in samples(join.metrics()).items()
        if key[0] == "slidejoin_push_duration_seconds_bucket"
    ]
    assert buckets == sorted(buckets)
    assert len(buckets) == 23


def test_integer_times_have_a_watermark_without_a_unit():
    join = sj.WindowJoin(sj.equal("k"), sj.interval(5, 5, time="ts", lateness=2))
    for side in ("left", "right"):
        join.push(**{side: {"k": [1], "ts": [100]}})
    found = samples(join.metrics())
    assert found["slidejoin_watermark",] == 98
    assert ("slidejoin_watermark_delay_seconds",) not in found


def test_windows_of_rows_tell_their_size_and_self_joins_have_one_side():
    join = sj.WindowJoin(sj.band("x", within=1), sj.rows(left=7, right=3))
    found = samples(join.metrics())
    assert found["slidejoin_window_rows", ("side", "left")] == 7
    assert found["slidejoin_window_rows", ("side", "right")] == 3
    alone = sj.WindowJoin(sj.band("x", within=1), sj.rows(7), self_join=True)
    alone.push({"x": [1, 2]})
    found = samples(alone.metrics())
    assert found["slidejoin_rows_total", ("side", "left")] == 2
    assert not [key for key in found if ("side", "right") in key]


@pytest.mark.parametrize("format_", PARSERS)
def test_a_join_without_rows_and_a_closed_one(format_):
    join = sj.WindowJoin(sj.band("x", within=1), sj.rows(5))
    found = samples(join.metrics(format_), format_)
    assert found["slidejoin_rows_total", ("side", "left")] == 0
    assert math.isnan(found["slidejoin_push_recent_seconds", ("quantile", "0.99")])
    assert not [key for key in found if key[0] == "slidejoin_index_info"]
    join.push(left={"x": [1.0]})
    join.close()
    found = samples(join.metrics(format_), format_)
    assert found["slidejoin_rows_total", ("side", "left")] == 1
    assert found["slidejoin_stored_rows", ("side", "left")] == 0
    assert found["slidejoin_ended",] == 1
    assert found["slidejoin_push_duration_seconds_count",] == 1, "the meter goes on"
    assert [key for key in found if key[0] == "slidejoin_index_info"]


def test_a_finished_and_a_restored_join():
    join = event_join()
    data = join.snapshot()
    join.finish()
    assert samples(join.metrics())["slidejoin_ended",] == 1
    again = samples(sj.WindowJoin.restore(data).metrics())
    assert again["slidejoin_matches_total",] == join.stats["matches"]
    assert again["slidejoin_push_duration_seconds_count",] == 0, "latencies are of this process"
    assert again["slidejoin_rows_per_second",] == 0, "restored rows did not come now"


def test_rows_that_wait_in_sources_count_as_memory():
    join = sj.WindowJoin(sj.equal("id"), sj.within(10, time="ts"))
    a = join.source("left", "a")
    join.source("right", "b")
    a.push({"ts": list(range(1000)), "id": [7] * 1000})
    assert samples(join.metrics())["slidejoin_memory_bytes",] == join.stats["memory_bytes"] > 16_000


@pytest.mark.parametrize("format_", PARSERS)
@pytest.mark.parametrize("value", ['a "b" \\ c', "line\nline", "\\n", "ä€", ""])
def test_labels_are_escaped(format_, value):
    join = sj.WindowJoin(sj.band("x", within=1), sj.rows(5))
    found = samples(join.metrics(format_, labels={"job": value}), format_)
    assert found["slidejoin_workers", ("job", value)] == 1


def test_names_of_columns_are_escaped_too():
    name = 'p"r\\i\nce'
    join = sj.WindowJoin(sj.band(name, within=1), sj.rows(5))
    info = next(key for key in samples(join.metrics()) if key[0] == "slidejoin_join_info")
    assert dict(info[1:])["on"] == repr(join.spec.on)


@pytest.mark.parametrize(
    "labels", [{"a-b": "x"}, {"__a": "x"}, {"": "x"}, {"side": "x"}, {"le": "x"}, {"a": 1}]
)
def test_wrong_labels_are_refused(labels):
    join = sj.WindowJoin(sj.band("x", within=1), sj.rows(5))
    with pytest.raises(SpecError, match="label"):
        join.metrics(labels=labels)


def test_an_unknown_format_is_refused():
    join = sj.WindowJoin(sj.band("x", within=1), sj.rows(5))
    with pytest.raises(SpecError, match="did you mean 'openmetrics'"):
        join.metrics("openmetric")


def test_names_are_those_of_the_document():
    """They are part of what users rely on."""
    with open("docs/watch.md", encoding="utf-8") as file:
        page = file.read()
    for name, _, type_, *_ in _FAMILIES:
        ending = {"counter": "_total", "info": "_info"}.get(type_, "")
        assert f"`{name}{ending}`" in page, name
    assert set(re.findall(r"^\| `(slidejoin_\w+)`", page, re.MULTILINE)) == {
        name + {"counter": "_total", "info": "_info"}.get(type_, "") for name, _, type_, *_ in _FAMILIES
    }


# --- prometheus_client ---


def test_a_registry_takes_the_collector():
    registry = CollectorRegistry(auto_describe=True)
    near, far = event_join(), sj.WindowJoin(sj.band("x", within=1), sj.rows(5))
    registry.register(sj.MetricsCollector({"near": near, "far": far}, labels={"site": "a"}))
    for text, format_ in (
        (generate_latest(registry).decode(), "prometheus"),
        (generate_openmetrics(registry).decode(), "openmetrics"),
    ):
        found = samples(text, format_)
        assert found["slidejoin_matches_total", ("join", "near"), ("site", "a")] == near.stats["matches"]
        assert found["slidejoin_matches_total", ("join", "far"), ("site", "a")] == 0
    assert registry.get_sample_value("slidejoin_workers", {"join": "far", "site": "a"}) == 1


@pytest.mark.parametrize("format_", PARSERS)
def test_our_text_says_what_prometheus_client_would_write(format_):
    collector = sj.MetricsCollector(event_join())
    registry = CollectorRegistry()
    registry.register(collector)
    theirs = {"prometheus": generate_latest, "openmetrics": generate_openmetrics}[format_](registry).decode()
    moving = (
        "slidejoin_watermark_delay_seconds",
        "slidejoin_rows_per_second",
        "slidejoin_sample_age_seconds",
    )
    mine, other = (
        {key: value for key, value in samples(text, format_).items() if key[0] not in moving}
        for text in (collector.text(format_), theirs)
    )
    assert mine == other
    types = [
        [(family.name, family.type, family.documentation, family.unit) for family in PARSERS[format_](text)]
        for text in (collector.text(format_), theirs)
    ]
    assert types[0] == types[1]


def test_a_collector_is_an_iterable_of_families():
    names = [family.name for family in sj.MetricsCollector(event_join())]
    assert names[:2] == ["slidejoin_join", "slidejoin_rows"]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("joins", "labels"),
    [("join", {}), ({"a": 1}, {}), ({"": event_join}, {}), (event_join, {}), ({1: None}, {})],
)
def test_a_collector_refuses_what_is_not_a_join(joins, labels):
    with pytest.raises(SpecError):
        sj.MetricsCollector(joins, labels)


def test_a_label_that_names_joins_twice_is_refused():
    join = sj.WindowJoin(sj.band("x", within=1), sj.rows(5))
    with pytest.raises(SpecError, match="'join'"):
        sj.MetricsCollector({"a": join}, {"join": "b"})
    assert 'join="b"' in sj.MetricsCollector(join, {"join": "b"}).text()


# --- other threads ---


def test_a_reader_neither_waits_for_a_push_nor_disturbs_it(monkeypatch):
    join = sj.WindowJoin(sj.band("x", within=1), sj.rows(100))
    join.push(left={"x": [1.0]})
    join.push(right={"x": [1.0]})
    entered, leave = threading.Event(), threading.Event()
    engine = join._live.engine
    original = engine.push

    def blocked(*arguments):
        entered.set()
        assert leave.wait(30)
        return original(*arguments)

    join.metrics()
    monkeypatch.setattr(engine, "push", blocked)
    results = []
    worker = threading.Thread(target=lambda: results.append(join.push(left={"x": [1.0, 2.0]})))
    worker.start()
    assert entered.wait(30)
    time.sleep(0.02)
    try:
        found = samples(join.metrics())
    finally:
        leave.set()
        worker.join()
    assert found["slidejoin_rows_total", ("side", "left")] == 1, "as before the push"
    assert found["slidejoin_sample_age_seconds",] > 0.01
    assert results[0].num_rows == 2
    after = samples(join.metrics())
    assert after["slidejoin_rows_total", ("side", "left")] == 3
    assert after["slidejoin_sample_age_seconds",] < found["slidejoin_sample_age_seconds",] + 1


def test_counters_of_a_busy_join_never_go_back():
    """A thread pushes as fast as it can, others read: none of them fails, and no counter falls."""
    rng = np.random.default_rng(3)
    join = sj.WindowJoin(sj.band("x", within=1e-4), sj.rows(20_000), how="full", workers=2)
    batches = [pa.table({"x": rng.random(size), "text": ["a"] * size}) for size in (1, 3, 40, 5000)]
    over, failures, seen = threading.Event(), [], []

    def push():
        try:
            for number in range(160):
                join.push(**{("left", "right")[number % 2]: batches[number // 2 % 4]})
            join.finish()
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()

    def read():
        mine = []
        try:
            while not over.is_set():
                mine.append(join._reading())
                time.sleep(0.001)
        except BaseException as error:
            failures.append(error)
        seen.append(mine)

    threads = [threading.Thread(target=read) for _ in range(2)]
    pusher = threading.Thread(target=push)
    for thread in (*threads, pusher):
        thread.start()
    for thread in (*threads, pusher):
        thread.join()
    assert not failures
    for readings in seen:
        for before, after in itertools.pairwise(readings):
            assert after.sample.rows >= before.sample.rows
            assert after.sample.stats["matches"] >= before.sample.stats["matches"]
            assert after.latencies.pushes >= before.latencies.pushes
    final = join._reading()
    assert final.sample.rows == sum(len(batches[number // 2 % 4]) for number in range(160))
    assert final.latencies.pushes == 160
