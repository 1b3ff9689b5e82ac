import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from plan_cases import FlatCosts, SparkFigures

import slidejoin as sj
from slidejoin import SpecError
from slidejoin.plan import plan_join
from slidejoin.plan.predict import EVENT_BYTES
from slidejoin.sizes import parse_bytes

COSTS = FlatCosts()


def planned(window=None, left_rate=1000.0, right_rate=None, **options):
    given = {"matches": 1.0, "costs": COSTS, "cores": 4, "row_bytes": 8, **options}
    if "matches" not in options and ("selectivity" in options or "sample" in options):
        del given["matches"]
    return plan_join(window or sj.rows(1000), left_rate, right_rate, **given)


def limit(plan, what):
    return next(each for each in plan.limits if each.what == what)


def test_a_slow_stream_is_joined_row_by_row_by_one_worker():
    plan = planned()
    assert (plan.engine, plan.index, plan.batch, plan.workers) == ("embedded", "bucket-tree", 1, 1)
    assert plan.holds
    # 2,000 rows a second, 1.1 microseconds each.
    assert plan.utilisation == pytest.approx(0.0022)
    assert plan.capacity == pytest.approx(1 / 1.1e-6)
    assert plan.latency.collect == 0
    assert plan.latency.join == pytest.approx(1.1e-6)
    assert plan.options == {"index": "bucket-tree", "workers": 1}


def test_joins_in_event_time_are_not_plain():
    costs = FlatCosts(other=1e-7)
    windows = [sj.rows(1000), sj.within("1s", time="ts"), sj.interval("1s", "1s", time="ts", lateness="1s")]
    seconds = [1 / planned(window, costs=costs).capacity for window in windows]
    assert seconds == pytest.approx([1.1e-6, 1.1e-6, 1.2e-6])


def test_the_batch_grows_with_the_rate():
    # 2 million rows a second leave 1/3 microsecond for each, with headroom 1.5: 0.1 + 1/batch <= 0.333.
    plan = planned(left_rate=1e6)
    assert (plan.batch, plan.workers) == (16, 1)
    assert plan.utilisation == pytest.approx(2e6 * (1e-7 + 1e-6 / 16))


def test_workers_are_added_where_no_batch_is_enough():
    plan = planned(left_rate=6e6)
    assert plan.workers == 2
    assert plan.holds


def test_latency_limits_the_batch():
    plan = planned(left_rate=1e6, latency="10us", headroom=1.0)
    # A batch of 16 collects for 8 microseconds; 64 would for 32.
    assert plan.batch <= 16
    assert plan.holds
    assert plan.latency.p99 <= 10e-6


def test_impossible_targets_are_named():
    plan = planned(left_rate=1e6, latency="1us")
    assert not plan.holds
    assert "MISSES" in repr(plan)
    assert any(text.startswith("latency") for text in plan.missed)
    assert plan.bearable == 0
    assert "at no rate" in repr(plan)


def test_overload_is_named_with_the_rate_that_would_do():
    plan = planned(left_rate=1e9)
    assert not plan.holds
    assert plan.utilisation > 1
    factor = limit(plan, "processor").factor
    assert factor < 1
    # Bearing it takes as many rows a second as the capacity.
    assert 2e9 * factor == pytest.approx(plan.capacity, rel=0.01)
    assert math.isinf(plan.latency.mean)
    # With headroom, and any setting: 4 workers, and large batches that collect in a second.
    assert 2e9 * plan.bearable == pytest.approx(plan.capacity / 1.5, rel=0.1)


def test_the_cheapest_index_is_taken():
    costs = FlatCosts(fixed=(("b-tree", 1e-7), ("bucket-tree", 2e-7)))
    plan = planned(costs=costs)
    assert plan.index == "b-tree"
    assert plan.alternatives == (("bucket-tree", pytest.approx(1 / 1.2e-6)),)
    assert planned(costs=costs, index="bucket-tree").index == "bucket-tree"


def test_what_is_decided_is_kept():
    plan = planned(batch=100, workers=3)
    assert (plan.batch, plan.workers) == (100, 3)


def test_memory():
    plan = planned(sj.within("100s"), memory=10**9)
    # 200,000 rows: 16 bytes in the index and 8 of their own; one match of two rows and two positions.
    assert plan.memory == pytest.approx(200_000 * 24 + 1 * (16 + 16))
    assert limit(plan, "memory").factor == pytest.approx(1e9 / plan.memory, rel=0.01)
    event = planned(sj.interval("100s", "100s", lateness="1s"), memory=10**9)
    assert event.memory > 200_000 * (24 + EVENT_BYTES)
    tight = planned(sj.within("100s"), memory="1MB")
    assert not tight.holds
    assert limit(tight, "memory").factor == pytest.approx(1e6 / plan.memory, rel=0.01)
    assert tight.limits[0].what == "memory"


def test_limits_are_reported_in_their_order():
    plan = planned(sj.within("100s"), memory=10**7)
    factors = [each.factor for each in plan.limits]
    assert factors == sorted(factors)
    first = plan.limits[0]
    assert first.left_rate == pytest.approx(1000 * first.factor)
    assert plan.headroom == limit(plan, "processor").factor


def test_the_window_grows_with_the_rate():
    costs = replace(COSTS, match=1e-6)
    slow = planned(sj.within("10s"), selectivity=1e-3, costs=costs)
    fast = planned(sj.within("10s"), 4000.0, selectivity=1e-3, costs=costs)
    assert slow.matches == pytest.approx(10)
    assert fast.matches == pytest.approx(40)


def test_a_trace_is_planned_for_its_peak_and_its_backlog_told():
    costs = replace(COSTS, push=0.0)
    trace = np.full(60, 1e5)
    trace[20:30] = 5.5e6
    plan = planned(left_rate=trace, costs=costs, cores=1, batch=1, index="bucket-tree")
    # 11 million rows a second need 1.1 s each second: 0.1 s are carried over, ten times.
    assert plan.backlog == pytest.approx(1.0)
    assert not plan.holds
    assert "backlog" in repr(plan)
    assert planned(left_rate=trace, costs=costs, cores=4).backlog == 0


def test_a_trace_is_also_planned_for_its_quiet_times():
    trace = np.full(1200, 100.0)
    trace[20:30] = 1e6  # the other rows are more than one in a hundred
    busy = planned(left_rate=1e6, latency="10ms")
    both = planned(left_rate=trace, latency="10ms", matches=0.01)
    assert busy.holds
    assert not both.holds  # a batch that bears the peak takes too long to fill at the other times
    assert "latency" in both.missed[0]
    rare = np.full(1200, 1e6)
    rare[:10] = 100.0  # fewer than one row in a hundred
    assert planned(left_rate=rare, latency="10ms", matches=0.01).holds


def test_matches_of_a_trace_are_those_at_its_mean_rate():
    trace = np.r_[np.full(300, 100.0), np.full(300, 300.0)]
    plan = planned(sj.within("10s"), trace, matches=2.0)
    assert plan.matches == pytest.approx(3.0)  # windows are half as full again in the second half


def test_huge_windows_leave_out_the_bucket_tree():
    assert planned(sj.rows(600_000_000)).index == "b-tree"


def test_headroom_that_is_missed_is_named():
    plan = planned(left_rate=4e6, cores=1, headroom=1.5)
    assert not plan.holds
    assert plan.missed[0].startswith("headroom: it bears 1.2")
    assert "missed" in repr(plan)


def test_sources_wait_for_each_other():
    plan = planned(left_rate=100.0, right_rate=100.0, ordered=True, sources=(1, 1), latency="10s")
    assert 0 < plan.latency.ready <= 0.01 + 1e-6
    more = planned(left_rate=100.0, right_rate=100.0, ordered=True, sources=(3, 2), latency="10s")
    assert more.latency.ready > plan.latency.ready
    assert planned(left_rate=100.0).latency.ready == 0


def test_spark_needs_a_trigger_longer_than_its_floor():
    costs = replace(COSTS, spark=SparkFigures())
    window = sj.interval("10s", "10s", time="t", lateness="1s")
    plan = planned(window, 10_000.0, engine="spark", costs=costs, latency="10s")
    assert plan.engine == "spark"
    assert plan.holds
    # The floor of 0.5 s leaves nothing of a trigger of 0.5 s.
    assert plan.trigger == 1.0
    assert plan.partitions == 1
    assert plan.options == {"partitions": 1}
    assert "micro-batch every 1 s" in repr(plan)


def test_any_engine_prefers_one_process():
    costs = replace(COSTS, spark=SparkFigures(row=1e-8))
    window = sj.interval("1s", "1s", time="t", lateness="1s")
    assert planned(window, 10_000.0, engine="any", costs=costs).engine == "embedded"
    huge = planned(window, 5e7, engine="any", costs=costs, latency="1min", selectivity=1e-9)
    assert huge.engine == "spark"


def test_a_sample_tells_the_selectivity():
    table = pa.table({"x": np.arange(1000)})
    plan = planned(sample=(table, table), on=sj.band("x", within=2))
    assert plan.matches == pytest.approx(5, rel=0.2)
    assert any("matches of the samples" in note for note in plan.notes)


def test_json():
    plan = planned(left_rate=1e9, memory="1GB")
    values = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert values["index"] == plan.index
    assert values["latency"]["p99"] is None
    assert {each["what"] for each in values["limits"]} == {"processor", "latency", "memory"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"left_rate": -1}, "left_rate is -1"),
        ({"right_rate": [1, -1]}, "right_rate is -1 in interval 1"),
        ({"matches": None}, "nothing given"),
        ({"selectivity": 0.5, "matches": 1}, "selectivity and matches given"),
        ({"matches": 0}, "matches 0; expected more than 0"),
        ({"matches": "2"}, "matches '2'"),
        ({"selectivity": "0.1"}, "selectivity '0.1'"),
        ({"left_rate": "5"}, "left_rate are not numbers"),
        ({"left_rate": 10**400}, "left_rate are not numbers"),
        ({"left_rate": 1e300}, "expected 0 to 10"),
        ({"interval": None}, "interval None"),
        ({"headroom": "2"}, "headroom '2'"),
        ({"row_bytes": -5}, "row_bytes -5"),
        ({"cores": 10**400}, "cores 1000"),
        ({"index": "im-tree(merge_ratio=0.5)"}, "known without parameters"),
        ({"sources": (1,), "ordered": True}, "sources=.1,."),
        ({"matches": 1001}, "meets 1,000 rows"),
        ({"selectivity": 2.0}, "selectivity 2.0; expected above 0 and up to 1"),
        ({"on": sj.equal("x")}, "give both or none"),
        ({"latency": "-1s"}, "not a positive duration"),
        ({"latency": 5}, "not a positive duration"),
        ({"headroom": 0.5}, "headroom 0.5"),
        ({"memory": "4"}, "has no unit"),
        ({"window": sj.rows(3_000_000_000)}, "a join holds"),
        ({"memory": "much"}, "not a number of bytes"),
        ({"memory": -1}, "more than 0 bytes"),
        ({"cores": 0}, "cores 0; expected a whole number"),
        ({"batch": 0}, "batch 0; expected a whole number"),
        ({"batch": 1.5}, "batch 1.5; expected a whole number"),
        ({"workers": True}, "workers True; expected a whole number"),
        ({"engine": "flink"}, "engine='flink'"),
        ({"engine": "spark"}, "interval"),
        ({"engine": "spark", "batch": 5}, "embedded join"),
        ({"index": "wib-tree"}, "no costs of wib-tree"),
        ({"index": "nonsense"}, "expected one of"),
        ({"sources": (0, 1), "ordered": True}, "sources 0; expected a whole number"),
    ],
)
def test_refused(options, message):
    with pytest.raises(SpecError, match=message):
        planned(**options)


def test_spark_without_costs_is_refused():
    window = sj.interval("1s", "1s", time="t", lateness="1s")
    with pytest.raises(SpecError, match="calibrate --spark"):
        planned(window, engine="spark")


@pytest.mark.parametrize(
    ("given", "size"), [(5, 5), ("2GB", 2e9), ("512 MiB", 2**29), ("1.5kb", 1500), (1_000, 1000)]
)
def test_bytes(given, size):
    assert parse_bytes(given) == size


def test_the_wait_for_sources_counts_for_the_limit_of_the_latency():
    # Two sources of 10 rows a second wait 0.05 s on average, 0.1 s at most: too long for 50 ms, and not at
    # four times the rates.
    plan = planned(left_rate=10.0, ordered=True, latency="50ms", batch=1)
    assert not plan.holds
    assert limit(plan, "latency").factor < 1
    assert planned(left_rate=40.0, ordered=True, latency="55ms", batch=1).holds


def test_slow_sources_wait_for_each_other():
    # Less than a row in an interval of a second: a row waits for seconds, not for nothing.
    slow = planned(left_rate=0.5, ordered=True, latency="1min").latency.ready
    fast = planned(left_rate=50.0, ordered=True, latency="1min").latency.ready
    assert slow == pytest.approx(100 * fast, rel=0.01)


def test_many_cores():
    assert planned(cores=10**9).workers == 1


def test_a_target_that_no_rate_meets_is_said_to_be_one():
    plan = planned(left_rate=10.0, batch=1024, latency="100ms")  # a batch takes 51 s to fill
    assert limit(plan, "latency").factor == 0
    assert "and at lower rates, too" in repr(plan)


def test_shipped_costs_of_spark_are_noted():
    costs = replace(COSTS, spark=SparkFigures())
    window = sj.interval("1s", "1s", time="t", lateness="1s")
    assert not planned(window, engine="spark", costs=costs, latency="10s").notes
    object.__setattr__(costs, "machine", {"cpu": "paper", "spark_from": "elsewhere"})
    assert "not measured here" in planned(window, engine="spark", costs=costs, latency="10s").notes[0]


def test_calm_parts_of_a_trace_in_which_a_push_fills_slowly_are_noted():
    # The peak needs pushes of 16 rows, which take 0.8 s to come at 20 rows a second.
    plan = planned(left_rate=[1e6, 10.0], latency="100ms")
    assert plan.batch == 16
    assert "at 20 rows a second a push takes 0.8 s to fill" in plan.notes[0]
    assert not planned(left_rate=[1e6, 1e5], latency="100ms").notes
