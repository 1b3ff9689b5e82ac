"""The streams benchmark in its smallest form, and what its figures rest on."""

import numpy as np
import pytest

from benchmarks import BENCHMARKS, merge, recovery, streams
from benchmarks.arrow_streams import Following, Stream
from benchmarks.foundation import Agreement, Answer
from benchmarks.workload import Workload
from slidejoin.errors import StateError
from slidejoin.join_type import JOIN_TYPES
from slidejoin.order import Order
from slidejoin.predicate import band
from slidejoin.window import rows

SIZES = streams.QUICK


def test_smoke_run_measures_every_line():
    said = []
    report = BENCHMARKS["streams"].run(True, said.append)
    claims = [result for result in report.results if result.target]
    assert [claim.target for claim in claims] == [">= 20", ">= 0.5", ">= 0.6", ">= 0.7"]
    assert all(result.value is not None and np.isfinite(result.value) for result in report.results)
    assert all(result.value > 0 for result in report.results)
    assert len({result.what for result in report.results}) == len(report.results)
    assert report.quick
    assert said


def test_compound_and_plain_conditions_meet_as_many_rows():
    found = {result.what: result.value for result in streams._symbols(SIZES, lambda _: None)}
    per_row = [value for what, value in found.items() if what.endswith("matches")]
    assert per_row == pytest.approx([SIZES.matches] * 2, rel=0.1)


def test_joins_that_find_more_than_others_stop_the_benchmark():
    stream = Stream(Workload(64))
    meters = []
    for width in (2**26, 2**27):
        join = stream.warm(band("key", within=width), rows(64), 32)
        meters.append(streams.Meter(join))
        join.push(arrivals=stream.table(stream.workload.warm, 1024))
    assert meters[1].per_row() == pytest.approx(2 * meters[0].per_row(), rel=0.1)
    streams.as_many(meters[0], meters[0])
    with pytest.raises(StateError, match="expected as many"):
        streams.as_many(*meters)


# --- sources ---


@pytest.mark.parametrize("shifted", [False, True])
def test_sources_are_in_order_and_share_no_time(shifted):
    data = merge.Streams(32, shifted=shifted)
    for source in range(5):
        times = np.concatenate([data.times(source, number) for number in range(4)])
        assert (np.diff(times) >= 0).all()
        assert set(times % 5) == {source}


@pytest.mark.parametrize("shifted", [False, True])
def test_merged_rows_are_those_that_an_order_hands_out(shifted):
    data = merge.Streams(32, payload=1, shifted=shifted)
    order = Order(strict=True)
    for source in merge.SOURCES:
        order.add(*source)
    handed_out, released = {0: [], 1: []}, []
    for push in data.pushes(0, 6 * data.round, 32):
        ready = order.push(*merge.SOURCES[push.source], push.table, push.times, None)
        order.commit(ready)
        released.append(len(ready.sides))
        for side, table in ready.tables.items():
            handed_out[side] += table.to_pylist()
    merged = [row for push in data.merged(0, 6 * data.round, 32) for row in push["arrivals"].to_pylist()]
    for side, found in handed_out.items():
        assert found == [{"ts": row["ts"], "x0": row["x0"]} for row in merged if row["side"] == side]
    assert [row["ts"] for row in merged] == sorted(row["ts"] for row in merged)
    assert len(merged) + order.waiting() == 6 * data.round
    every_push_releases = all(count > 0 for count in released[10:])
    assert every_push_releases == shifted


def test_another_order_of_the_same_rows_is_noticed():
    sides, times = np.array([0, 1, 0], np.uint8), np.array([3, 5, 8])
    answers = []
    for order in ([0, 1, 2], [1, 0, 2]):
        found = merge._Sequence()
        found.add(sides[order], times[order])
        answers.append(found.answer(1.0))
    assert answers[0].matches == answers[1].matches
    assert answers[0].checksum != answers[1].checksum


# --- join types ---


def test_half_of_the_rows_have_two_partners_within_the_window():
    window, count = 128, 4096
    keys = streams.half_matched(0, count, window).astype(np.int64)
    left, right = keys[0::2], keys[1::2]
    near = np.abs(left[:, None] - right[None, :]) <= 1
    middle = slice(window, len(left) - window)  # at the ends a partner is missing
    for partners in (near.sum(axis=1)[middle], near.sum(axis=0)[middle]):
        assert dict(zip(*np.unique(partners, return_counts=True), strict=True)) == {
            0: len(partners) // 2,
            2: len(partners) // 2,
        }
    rows_, columns = np.nonzero(near)
    distance = np.abs(rows_ - columns)
    assert distance.max() < window
    assert distance.min() > window // 2 - 4
    assert (rows_ < columns).mean() == pytest.approx(0.5, abs=0.05)  # both sides come first as often


def test_join_types_agree_on_pairs_and_on_rows_alone():
    stream = Stream(
        Workload(SIZES.middle),
        extra=lambda start, count: {"key": streams.half_matched(start, count, SIZES.middle)},
    )
    found = {}
    for how in JOIN_TYPES:
        join = stream.warm(band("key", within=1), rows(SIZES.middle), SIZES.push, how)
        parts = dict.fromkeys(streams.PARTS, 0)
        with streams._following(stream, SIZES) as pushes:
            for push in pushes:
                for part, (count, _) in streams.parts_of(how, join.push(**push)).items():
                    parts[part] += count
        found[how] = parts
    lefts = SIZES.tuples // 2
    pairs, alone = {"left of pairs": lefts, "right of pairs": lefts}, lefts // 2
    nothing = dict.fromkeys(streams.PARTS, 0)
    assert found == {
        "inner": nothing | pairs,
        "left": nothing | pairs | {"left alone": alone},
        "right": nothing | pairs | {"right alone": alone},
        "full": pairs | {"left alone": alone, "right alone": alone},
        "left_semi": nothing | {"left of pairs": lefts},
        "left_anti": nothing | {"left alone": alone},
        "right_semi": nothing | {"right of pairs": lefts},
        "right_anti": nothing | {"right alone": alone},
    }


def test_a_wrong_part_stops_the_benchmark():
    agreements = {part: Agreement() for part in streams.PARTS}
    agreements["left alone"].comparison()(Answer(1.0, 0, 0))
    stream = Stream(Workload(64), extra=lambda start, count: {"key": streams.half_matched(start, count, 64)})
    join = stream.warm(band("key", within=1), rows(64), 32, "left")
    following = Following(stream.arrivals, stream.workload.warm, 256, 32)
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        streams._type_run("left", join, following, agreements)()


# --- recovery ---


def test_another_state_stops_the_benchmark(monkeypatch):
    def other(*_, **__):
        raise StateError("reached")

    recovery._same(b"a", b"a")
    with pytest.raises(StateError, match="another state"):
        recovery._same(b"a", b"b")
    monkeypatch.setattr(recovery, "_same", other)
    with pytest.raises(StateError, match="reached"):
        list(recovery.lines(64, 32, (32,), 1, lambda _: None))
