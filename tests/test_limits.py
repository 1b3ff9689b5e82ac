"""Limits: a batch beyond one is refused whole, or the oldest rows make room."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property.test_join_types import EFFORT

import slidejoin as sj
from slidejoin import CapacityError, SpecError, UsageError

WINDOWS = {
    "rows": sj.rows(50),
    "within": sj.within(20, time="ts"),
    "interval": sj.interval(before=15, after=10, time="ts", lateness=5),
}


def batch(shuffled, start, count, keys=4):
    ts = [start + i // 3 for i in range(count)]
    return {
        "k": [shuffled.choice([*range(keys), None]) for _ in range(count)],
        "ts": ts,
        "n": list(range(start, start + count)),
        "side": [shuffled.randrange(2) for _ in range(count)],
    }


def stored(join):
    return join.stats["stored_left"], join.stats["stored_right"]


def state(join):
    """All that a refused batch must leave as it was."""
    return {**join.stats, "memory_bytes": 0}, join.snapshot()  # memory for batches may have been taken


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_rows": 0}, "max_rows=0; expected the most rows"),
        ({"max_rows": (1, 2, 3)}, "pair"),
        ({"max_rows": "many"}, "max_rows='many'"),
        ({"max_fanout": 0}, "max_fanout=0"),
        ({"max_fanout": 1.5}, "max_fanout=1.5"),
        ({"max_memory": "2"}, "has no unit"),
        ({"max_memory": -1}, "more than 0"),
        ({"max_memory": True}, "expected bytes"),
        ({"when_full": "drop"}, "did you mean 'drop_oldest'"),
        ({"when_full": "drop_oldest"}, "needs max_rows"),
    ],
)
def test_limits_that_make_no_sense(limits, message):
    with pytest.raises(SpecError, match=message):
        sj.WindowJoin(sj.equal("k"), 10, **limits)


def test_a_self_join_has_one_limit():
    with pytest.raises(SpecError, match="one stream"):
        sj.WindowJoin(sj.equal("k"), 10, self_join=True, max_rows=(1, 2))


def test_limits_are_shown_and_saved():
    join = sj.WindowJoin(
        sj.equal("k"), 10, max_rows=5, max_memory="1GB", max_fanout=7, when_full="drop_oldest"
    )
    assert "max_rows=[5, 5], max_memory=1000000000, max_fanout=7, when_full='drop_oldest'" in repr(join)
    again = sj.WindowJoin.restore(join.snapshot())
    assert again.spec == join.spec
    assert "max_rows" not in repr(sj.WindowJoin(sj.equal("k"), 10))


@pytest.mark.parametrize("window", WINDOWS)
def test_too_many_rows_are_refused_whole(window):
    join = sj.WindowJoin(sj.equal("k"), WINDOWS[window], max_rows=(35, 35))
    shuffled = random.Random(1)
    for start in range(0, 60, 10):
        rows = batch(shuffled, start, 10)
        join.push(arrivals=rows)
        assert max(stored(join)) <= 35
    before = state(join)
    many = {"k": [1] * 40, "ts": [60] * 40, "n": [0] * 40}
    with pytest.raises(CapacityError, match=r"max_rows=35 of the left side would be passed: .* 40 arrive"):
        join.push(left=many)
    assert state(join) == before
    join.check()
    join.push(left={"k": [1], "ts": [60], "n": [0]})


@given(
    st.sampled_from(sorted(WINDOWS)), st.integers(1, 40), st.integers(0, 10**6), st.lists(st.integers(1, 30))
)
@EFFORT
def test_rows_are_refused_exactly_where_more_would_be_held(window, most, seed, sizes):
    """A batch is refused if, pushed row by row, more rows than the limit would be held at one time."""
    shuffled = random.Random(seed)
    join = sj.WindowJoin(sj.equal("k"), WINDOWS[window], max_rows=most, schemas=(SCHEMA, SCHEMA))
    held = "stored" if window == "interval" else "kept"
    start = 0
    for size in sizes:
        rows = batch(shuffled, start, size)
        single = sj.WindowJoin.restore(join.snapshot())
        peak = 0
        object.__setattr__(single.spec.limits, "max_rows", None)  # a copy without the limit
        for i in range(size):
            single.push(arrivals={name: column[i : i + 1] for name, column in rows.items()})
            native = single._live.engine.native.stats()
            counts = [
                native[f"stored_{side}"]
                if held == "stored"
                else native[f"next_{side}"] - native[f"first_{side}"]
                for side in ("left", "right")
            ]
            peak = max(peak, *counts)
        if peak > most:
            with pytest.raises(CapacityError):
                join.push(arrivals=rows)
        else:
            join.push(arrivals=rows)
            start += size


SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("n", pa.int64())])


def naive(rows, window, most):
    """Pairs (left number, right number) of a join that keeps the last ``most`` rows of each side."""
    held, found, dropped = ([], []), [], [0, 0]
    watermark, seen = float("-inf"), [float("-inf")] * 2
    for k, ts, n, side in zip(rows["k"], rows["ts"], rows["n"], rows["side"], strict=True):
        own, met = held[side], held[1 - side]
        if window == "interval" and ts < watermark:
            continue
        if window == "within":
            for rows_ in held:
                rows_[:] = [row for row in rows_ if row[1] >= ts - 20]
        for k2, ts2, n2 in met:
            pair = (n, n2) if side == 0 else (n2, n)
            apart = ts2 - ts if side == 0 else ts - ts2
            if k is not None and k == k2 and (window != "interval" or -15 <= apart <= 10):
                found.append(pair)
        if window != "interval" or k is not None:
            own.append((k, ts, n))
        if window == "interval":
            seen[side] = max(seen[side], ts)
            watermark = max(watermark, min(seen) - 5)
            for i, rows_ in enumerate(held):
                rows_[:] = [row for row in rows_ if row[1] + (10, 15)[i] >= watermark]
        if len(own) > most:
            del own[0]
            dropped[side] += 1
    return found, dropped


@given(
    st.sampled_from(sorted(WINDOWS)),
    st.integers(1, 30),
    st.integers(0, 10**6),
    st.integers(0, 120),
    st.data(),
)
@EFFORT
def test_the_oldest_rows_are_dropped_at_every_batch_size(window, most, seed, count, data):
    shuffled = random.Random(seed)
    rows = batch(shuffled, 0, count)
    if window == "interval":
        rows["ts"] = [ts + shuffled.randrange(8) for ts in rows["ts"]]
    found, dropped = naive(rows, window, most)
    splits = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    join = sj.WindowJoin(
        sj.equal("k"),
        WINDOWS[window],
        order="full",
        max_rows=most,
        when_full="drop_oldest",
        schemas=(SCHEMA, SCHEMA),
    )
    result = []
    for first, last in zip([0, *splits], [*splits, count], strict=True):
        part = {name: pa.array(column[first:last], pa.int64()) for name, column in rows.items()}
        result += join.push(arrivals=part).to_pylist()
        join.check()
        if data.draw(st.booleans()):
            join = sj.WindowJoin.restore(join.snapshot())
    assert [(row["n"], row["n_right"]) for row in result] == found
    assert [join.stats["dropped_left"], join.stats["dropped_right"]] == dropped


def test_dropped_rows_of_an_outer_join_are_final():
    join = sj.WindowJoin(
        sj.equal("k"), sj.within(100, time="ts"), how="left", max_rows=2, when_full="drop_oldest"
    )
    join.push(right={"k": [9], "ts": [0]})
    out = join.push(left={"k": [1, 9, 3, 4], "ts": [1, 2, 3, 4]}).to_pylist()
    assert [(row["k"], row["k_right"]) for row in out] == [
        (9, 9),
        (1, None),
    ]  # 9 was dropped, too, and had matched
    assert [row["k"] for row in join.finish().to_pylist()] == [3, 4]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("on", [sj.equal("k"), sj.band("k", within=0), sj.equal("k") & sj.not_equal("n")])
def test_a_row_with_too_many_matches_is_refused(window, on):
    join = sj.WindowJoin(on, WINDOWS[window], max_fanout=5)
    rows = {"k": [1] * 6 + [2] * 5, "ts": [1] * 11, "n": list(range(11))}
    join.push(left=rows)
    assert join.push(right={"k": [2], "ts": [1], "n": [100]}).num_rows == 5
    before = state(join)
    with pytest.raises(CapacityError, match="row 1 of this batch matches more than max_fanout=5"):
        join.push(right={"k": [3, 1], "ts": [1, 1], "n": [101, 102]})
    assert state(join) == before
    with pytest.raises(CapacityError, match="row 6 of this batch"):  # six of the same batch
        join.push(arrivals={"k": [7] * 7, "ts": [1] * 7, "n": range(7), "side": [0, 0, 0, 0, 0, 0, 1]})
    assert state(join) == before
    assert join.push(right={"k": [3], "ts": [1], "n": [102]}).num_rows == 0


def test_a_row_counts_only_matches_that_its_window_shows():
    """An estimate counts the rows that leave during the batch; the exact count does not."""
    join = sj.WindowJoin(sj.equal("k"), sj.within(10, time="ts"), max_fanout=3)
    join.push(left={"k": [1] * 3, "ts": [0] * 3})
    out = join.push(arrivals={"k": [1] * 4, "ts": [100] * 4, "side": [0, 0, 0, 1]})
    assert out.num_rows == 3
    texts = sj.WindowJoin(sj.equal("k"), sj.rows(10), max_fanout=2)
    texts.push(left={"k": ["a", "a", "b"]})
    with pytest.raises(CapacityError, match="max_fanout=2"):
        texts.push(arrivals=pa.table({"k": ["a", "a"], "side": [0, 1]}))


def test_self_joins_have_limits():
    join = sj.WindowJoin(sj.equal("k"), sj.rows(100), self_join=True, max_rows=5, max_fanout=2)
    assert join.push({"k": [1, 1, 2]}).num_rows == 1
    with pytest.raises(CapacityError, match="max_fanout"):
        join.push({"k": [1, 1]})
    with pytest.raises(CapacityError, match="max_rows"):
        join.push({"k": [5, 6, 7]})
    assert join.push({"k": [1]}).num_rows == 2


def test_memory_is_limited():
    join = sj.WindowJoin(sj.equal("k"), sj.rows(10**6), max_memory="20MB")
    rows = 0
    refused = ""
    while not refused and rows < 10**6:
        try:
            join.push(left={"k": np.arange(10_000), "x": np.ones(10_000)})
            rows += 10_000
        except CapacityError as error:
            refused = str(error)
    assert refused.startswith("max_memory=20,000,000 bytes would be passed")
    assert join.stats["rows_left"] == rows >= 100_000
    assert join.stats["memory_bytes"] < 20_000_000
    assert join.push(right={"k": [5], "x": [1.0]}).num_rows == rows // 10_000
    join.check()


def test_a_refused_batch_leaves_an_idle_side_alone():
    window = sj.interval(5, 5, time="ts", lateness=0, idle_after="1s")
    join = sj.WindowJoin(sj.equal("k"), window, max_rows=1)
    now = [0]
    join._clock = lambda: now[0]
    join.push(left={"k": [1], "ts": [1]})
    now[0] = 10**10
    with pytest.raises(CapacityError):
        join.push(left={"k": [1, 2], "ts": [2, 2]})
    assert join.stats["watermark"] is None


# --- chunks ---


def hot(rows=300, **options):
    join = sj.WindowJoin(sj.equal("k"), sj.rows(10**4), **options)
    join.push(left={"k": [7] * rows, "n": list(range(rows))})
    return join


def test_counters_can_be_read_between_chunks():
    join = hot()
    chunks = join.push_iter(right={"k": [7, 7, 8], "n": [0, 1, 2]}, chunk_rows=100)
    sizes = []
    for chunk in chunks:
        sizes.append(chunk.num_rows)
        assert join.stats["stored_left"] == 300
        assert "hash" in str(join.explain()) or join.explain()
    assert sum(sizes) == 600 == join.stats["matches"]
    assert max(sizes) <= 100
    assert next(chunks, None) is None


def test_another_call_ends_an_iterator():
    join = hot()
    chunks = join.push_iter(right={"k": [7] * 4, "n": [0] * 4}, chunk_rows=100)
    assert next(chunks).num_rows == 100
    assert join.push(right={"k": [8], "n": [5]}).num_rows == 0
    with pytest.raises(
        UsageError, match="another call has joined the rest of this push and dropped its results"
    ):
        next(chunks)
    assert join.stats["matches"] == 1200
    assert join.push(left={"k": [7], "n": [5]}).num_rows == 4  # all rows of the abandoned push were stored


def test_an_iterator_that_is_not_used_has_happened():
    join = hot()
    join.push_iter(right={"k": [7] * 4, "n": [0] * 4}, chunk_rows=100)
    assert join.stats["rows_right"] == 4
    chunks = join.push_iter(right={"k": [7] * 4, "n": [0] * 4}, chunk_rows=100)
    with chunks:
        next(chunks)
    assert join.stats["rows_right"] == 8
    assert list(chunks) == []


def test_a_refused_batch_is_refused_by_the_call():
    join = hot(max_fanout=299)
    with pytest.raises(CapacityError):
        join.push_iter(right={"k": [7], "n": [0]})
    with pytest.raises(UsageError, match="chunk_rows=0"):
        join.push_iter(right={"k": [7], "n": [0]}, chunk_rows=0)
    assert join.stats["rows_right"] == 0


def test_a_snapshot_between_chunks_has_the_whole_push():
    join = hot()
    chunks = join.push_iter(right={"k": [7] * 4, "n": [0] * 4}, chunk_rows=100)
    next(chunks)
    again = sj.WindowJoin.restore(join.snapshot())
    assert again.stats["rows_right"] == 4
    assert again.push(left={"k": [7], "n": [1]}).num_rows == 4


def test_large_results_of_push_are_made_in_portions(monkeypatch):
    monkeypatch.setattr("slidejoin.live.PORTION", 1000)
    join = hot(rows=3000, order="full")
    out = join.push(right={"k": [7, 7, 8, 7], "n": [0, 1, 2, 3]})
    assert out.column("n").to_pylist() == list(range(3000)) * 3
    assert out.column("n_right").to_pylist() == [n for n in (0, 1, 3) for _ in range(3000)]


def test_an_interrupt_between_portions_loses_nothing(monkeypatch):
    monkeypatch.setattr("slidejoin.live.PORTION", 1000)
    join = hot(rows=3000, order="full")
    go_on, calls = join._live.go_on, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        go_on(*arguments)

    join._live.go_on = interrupted
    with pytest.raises(KeyboardInterrupt):
        join.push(right={"k": [7, 7], "n": [0, 1]})
    out = join.push(right={"k": [7], "n": [2]})
    assert out.column("n_right").to_pylist() == [n for n in range(3) for _ in range(3000)]


def test_unmatched_rows_wait_for_the_columns_of_the_other_side():
    join = sj.WindowJoin(sj.equal("k"), sj.rows(2), how="left")
    assert list(join.push_iter(left={"k": [1, 2, 3]})) == []  # 1 is final, and has no right columns yet
    (chunk,) = join.push_iter(right={"b": [9], "k": [3]})
    assert chunk.to_pylist() == [
        {"k": 1, "b": None, "k_right": None},
        {"k": 3, "b": 9, "k_right": 3},
    ]


@pytest.mark.parametrize("lateness", [0, None])
@pytest.mark.parametrize("size", [1, 4])
def test_null_rows_are_not_dropped_in_the_place_of_others(lateness, size):
    """Before the watermark is known, null rows stay in front of the window."""
    window = sj.interval(10, 10, time="ts", lateness=lateness)
    join = sj.WindowJoin(sj.equal("k"), window, schemas=(SCHEMA, SCHEMA), max_rows=1, when_full="drop_oldest")
    rows = {"k": pa.array([None, 1, 2, None], pa.int64()), "ts": [1, 2, 3, 3], "n": [0, 1, 2, 3]}
    for at in range(0, 4, size):
        join.push(left={name: column[at : at + size] for name, column in rows.items()})
    assert (join.stats["stored_left"], join.stats["dropped_left"]) == (1, 1)
    assert join.push(right={"k": [1, 2], "ts": [3, 3], "n": [0, 1]}).column("k").to_pylist() == [2]
    join.advance(to=100)
    assert stored(join) == (0, 0)
    join.push(left={"k": [7], "ts": [100], "n": [9]}, store=False)
    join.check()


def test_a_batch_may_be_changed_while_its_chunks_are_read():
    join = hot(500)
    keys, numbers = np.full(1000, 7), np.arange(1000)
    chunks = join.push_iter(right={"k": keys, "n": numbers}, chunk_rows=1000)
    found = [next(chunks)]
    keys[:], numbers[:] = 8, -1
    found += chunks
    assert sum(chunk.num_rows for chunk in found) == 500_000
    assert sj.concat(found).column("n_right").to_pylist() == [n for n in range(1000) for _ in range(500)]


def test_an_interrupt_between_chunks_loses_nothing(monkeypatch):
    join = hot(500)
    chunks = join.push_iter(right={"k": [7] * 4, "n": [0] * 4}, chunk_rows=100)
    cut, calls = chunks.cut, []

    def interrupted(table):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return cut(table)

    monkeypatch.setattr(chunks, "cut", interrupted)
    found, interrupts = 0, 0
    while True:
        try:
            found += next(chunks).num_rows
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert (found, interrupts) == (2000, 1)


def test_closing_a_join_ends_its_iterator_with_an_error():
    join = hot()
    chunks = join.push_iter(right={"k": [7] * 4, "n": [0] * 4}, chunk_rows=100)
    next(chunks)
    join.close()
    with pytest.raises(UsageError, match="the join was closed"):
        next(chunks)


def test_a_row_out_of_order_is_named_also_with_limits():
    join = sj.WindowJoin(sj.equal("k"), sj.within(10, time="ts"), max_rows=2)
    with pytest.raises(sj.OrderError, match="row 1: 'ts' is 50, earlier than 60"):
        join.push(left={"k": [1, 1, 1], "ts": [60, 50, 70]})


def test_rows_that_wait_in_sources_count_and_are_released():
    join = sj.WindowJoin(sj.equal("k"), sj.within(10, time="ts"), max_memory="3MB")
    slow, quick = join.source("left", "slow"), join.source("right", "quick")
    pushed, refused = 0, False
    while not refused:
        try:
            quick.push({"k": np.full(1000, pushed), "ts": np.full(1000, pushed)})
            pushed += 1
        except CapacityError:
            refused = True
    assert 20 < pushed < 200
    slow.push({"k": [0], "ts": [10**6]})
    slow.finish()
    join.finish()
    assert join.stats["rows_right"] == 1000 * pushed


def test_an_interrupted_push_is_a_sign_of_life(monkeypatch):
    window = sj.interval(5, 5, time="ts", lateness=0, idle_after="10s")
    join = sj.WindowJoin(sj.equal("k"), window)
    now = [0]
    join._clock = lambda: now[0]
    join.push(left={"k": [1], "ts": [1]})
    join.push(right={"k": [1], "ts": [2]})
    now[0] = 9 * 10**9

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(join._live.meter), "record", interrupted)
        with pytest.raises(KeyboardInterrupt):
            join.push(right={"k": [1], "ts": [2]})
    now[0] = 11 * 10**9
    join.push(left={"k": [1], "ts": [50]})
    assert join.stats["watermark"] == 2
