"""Snapshots as their users meet them: notes, chunks, refused arguments."""

import copy
import os
import pickle
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.snapshot import binary

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"


def joined(rows=3):
    join = sj.WindowJoin(sj.equal("id"), sj.rows(1000), how="left")
    join.push(left={"id": list(range(rows))})
    return join


def test_a_note_is_kept_with_the_state():
    join = joined()
    assert join.note is None
    assert sj.WindowJoin.restore(join.snapshot(note="offset 7")).note == "offset 7"
    increment = join.snapshot_since(None, note="offset 8")
    assert sj.WindowJoin.restore(increment.head, chunks=increment.chunks).note == "offset 8"
    with pytest.raises(sj.UsageError, match="expected a text"):
        join.snapshot(note=7)


def test_small_increments_do_not_pile_up():
    """Chunks of one size become one: a few dozen for thousands of increments, rows written a few times."""
    increments = 3000 if LONG else 1000
    rows = 2 * increments
    join, kept, token = sj.WindowJoin(sj.equal("id"), sj.rows(rows * 5 // 6)), {}, None
    written = 0
    for i in range(increments):
        join.push(left={"id": [i, i]})
        new = join.snapshot_since(token)
        token = new.token
        metas = [binary.decode(chunk).meta for chunk in new.chunks.values()]
        written += sum(meta["stop"] - meta["start"] for meta in metas)
        kept.update(new.chunks)
        for name in new.dead:
            del kept[name]
        assert set(kept) == set(new.alive)
        assert len(kept) < 60
    assert rows <= written < 6 * rows
    again = sj.WindowJoin.restore(new.head, chunks=kept)
    again.check()
    assert again.push(right={"id": [increments - 1, 2, increments // 5]}).num_rows == 4


def test_a_new_beginning_names_the_old_chunks():
    join = joined()
    first = join.snapshot_since(None)
    second = join.snapshot_since(None)
    assert set(first.chunks) <= set(second.dead)
    assert set(second.alive) == set(second.chunks)
    assert "head=" not in repr(second)


def test_what_restore_cannot_use():
    join = joined()
    whole, increment = join.snapshot(), join.snapshot_since(None)
    chunk = next(iter(increment.chunks.values()))
    for data, chunks, error, match in (
        (increment.head, None, sj.StateError, "give its chunks"),
        (whole, {}, sj.StateError, "leave chunks= out"),
        (chunk, {}, sj.StateError, "give the head"),
        (increment, None, sj.UsageError, "increment.head"),
        (increment.head, [chunk], sj.UsageError, "expected a mapping"),
        (increment.head, dict.fromkeys(increment.chunks), sj.UsageError, "expected its bytes"),
        (None, None, sj.UsageError, "expected bytes or a path"),
    ):
        with pytest.raises(error, match=match):
            sj.WindowJoin.restore(data, chunks=chunks)
    with pytest.raises(sj.SpecError, match="index='foo'"):
        sj.WindowJoin.restore(whole, index="foo")


def test_a_join_is_not_pickled():
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="snapshot"):
            attempt(joined())


@pytest.mark.parametrize("store", [0, 1, "no", None])
def test_store_is_true_or_false(store):
    join = joined()
    with pytest.raises(sj.UsageError, match="True or False"):
        join.push(right={"id": [1]}, store=store)
    assert join.push(right={"id": [1]}, store=np.bool_(False)).num_rows == 1


def test_a_source_is_silent_from_its_opening_on():
    window = sj.interval(5, 5, time="ts", lateness=0, idle_after="1s")
    join, now = sj.WindowJoin(sj.band("v", within=1), window, order="full"), 10**12
    join._clock = lambda: now
    a, b = join.source("left", "a"), join.source("left", "b")
    for step in range(3):
        a.push({"ts": [step], "v": [1.0]})
        assert [info.is_idle for info in join.sources] == [False, False]
        join = sj.WindowJoin.restore(join.snapshot())
        join._clock = lambda: now
        a, b = join.source("left", "a"), join.source("left", "b")
    now += 10**9 - 1
    a.push({"ts": [8], "v": [1.0]})
    assert not join.sources[1].is_idle
    now += 1
    a.push({"ts": [9], "v": [1.0]})
    assert [(info.is_idle, info.waiting, info.latest) for info in join.sources] == [
        (False, 0, 9),
        (True, 0, None),
    ]
    assert b.push({"ts": [9], "v": [1.0]}).num_rows == 0
    assert not join.sources[1].is_idle


def test_a_source_without_its_time_column():
    join = sj.WindowJoin(sj.equal("id"), sj.rows(10))
    source = join.source("left", "a", time="nope")
    with pytest.raises(sj.SchemaError, match="nope"):
        source.push(pa.table({"id": [1]}))


def stamped(unit, *times):
    return pa.table({"id": pa.array([1] * len(times), pa.int64()), "ts": pa.array(times, pa.timestamp(unit))})


def test_a_source_with_finer_times_is_opened_before_a_snapshot():
    """The columns of both sides are known, so the unit becomes finer with the opening, not with a row."""
    schemas = stamped("ms").schema, stamped("us").schema
    join = sj.WindowJoin(sj.equal("id"), sj.rows(10), schemas=schemas)
    join.source("left", "a", time="ts").push(stamped("ms", 5))
    for restart in (False, True):
        if restart:
            join = sj.WindowJoin.restore(join.snapshot())
        right = join.source("right", "b", time="ts")
        assert [info.latest for info in join.sources] == [datetime(1970, 1, 1, microsecond=5000), None]
        with pytest.raises(sj.OrderError, match=r"sorts before .*00\.005"):
            right.push(stamped("us", 4999))
        left = join.source("left", "a", time="ts")
        with pytest.raises(sj.OrderError, match=r"after .*00\.005"):
            left.push(stamped("ms", 4))
    assert right.push(stamped("us", 5001)).num_rows == 0
    assert left.push(stamped("ms", 6)).num_rows == 1


@pytest.mark.parametrize(
    ("times", "match"),
    [
        (pa.array([], pa.timestamp("ns")), "does not fit 64 bits"),
        (pa.array([], pa.timestamp("ms", "UTC")), "zone"),
        (pa.array([], pa.string()), "not a point in time"),
    ],
    ids=["overflow", "zone", "text"],
)
def test_a_source_whose_times_do_not_fit_is_not_opened(times, match):
    schemas = stamped("s").schema, stamped("s").set_column(1, "ts", times).schema
    join = sj.WindowJoin(sj.equal("id"), sj.rows(10), schemas=schemas)
    left = join.source("left", "a", time="ts")
    left.push(stamped("s", 10**11))
    before = join.snapshot()
    for column, message in (("ts", match), ("when", "'when'")):
        with pytest.raises(sj.SchemaError, match=message):
            join.source("right", "b", time=column)
        assert join.snapshot() == before
    assert left.push(stamped("s", 10**11 + 1)).num_rows == 0
    assert join.stats["rows_left"] == 2


def test_a_short_history_keeps_heads_small():
    short, long = (sj.WindowJoin(sj.equal("id"), sj.rows(4)) for _ in range(2))
    kept = {short: [], long: []}
    for step in range(60):
        for join, history in ((short, 1), (long, None)):
            join.push(left={"id": [step, step + 1]})
            token = kept[join][-1].token if kept[join] else None
            kept[join].append(join.snapshot_since(token, history=history))
    assert len(kept[short][-1].head) < len(kept[long][-1].head) - 1000
    tokens = [new.token for new in kept[short]]
    with pytest.raises(sj.StateError, match="2 snapshots old; dead chunks are known of the last 1"):
        short.snapshot_since(tokens[-3])
    again = short.snapshot_since(tokens[-2])
    assert set(again.alive) >= set(again.chunks)


@pytest.mark.parametrize(
    "options", [{"fanout": 1}, {"fanout": True}, {"history": 0}, {"history": 1.5}], ids=str
)
def test_refused_options_of_an_increment(options):
    join = sj.WindowJoin(sj.equal("id"), sj.rows(4))
    with pytest.raises(sj.UsageError, match=next(iter(options))):
        join.snapshot_since(**options)
