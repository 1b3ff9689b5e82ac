"""join.run(): kinds of sources, merging, stopping, ends, silence, errors of arguments."""

import gc
import queue
import threading
import time

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from drive.streams import ON, Closing, chunked, collected, eventually, merged, pushed, rows, table, threads

import slidejoin as sj
from slidejoin.drive.by_arrival import gathered, gathered_rows
from slidejoin.source import Side

WITHIN = sj.within(5, time="ts")


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    gc.collect()
    assert threads() == []


def joined_by_time(left, right, **options):
    return collected(sj.WindowJoin(ON, WITHIN, order="full").run(left=left, right=right, **options))


LEFT, RIGHT = rows(50), rows(40, 1)
EXPECTED = pushed(sj.WindowJoin(ON, WITHIN, order="full"), merged(LEFT, RIGHT))


@pytest.mark.parametrize(
    "form", [list, table, pd.DataFrame, pl.DataFrame, lambda part: table(part).to_batches()[0]]
)
def test_batches_of_every_kind(form):
    assert EXPECTED
    assert joined_by_time(chunked(LEFT, [7, 1, 3], form), iter(RIGHT), max_rows=11) == EXPECTED


def test_a_record_batch_reader_and_pandas_chunks_are_sources(tmp_path):
    pd.DataFrame(RIGHT).to_csv(tmp_path / "right.csv", index=False)
    reader = pa.RecordBatchReader.from_batches(table(LEFT).schema, table(LEFT).to_batches(max_chunksize=9))
    assert joined_by_time(reader, pd.read_csv(tmp_path / "right.csv", chunksize=7)) == EXPECTED


def test_rows_of_other_mappings_and_none_between_them():
    from types import MappingProxyType

    left = [each for row in LEFT for each in (None, MappingProxyType(row))]
    assert joined_by_time(left, RIGHT) == EXPECTED


def test_the_order_of_arrival_is_kept_over_both_sides():
    """One thread feeds both sides by queues, row by row; the result is that of the same interleaving."""
    feeds = queue.Queue(), queue.Queue()
    sequence = [n % 3 == 0 or n % 7 == 0 for n in range(60)]
    sources = [iter(feed.get, None) for feed in feeds]
    arrivals = [{"k": n % 2, "v": n % 5, "id": n, "side": int(side)} for n, side in enumerate(sequence)]
    join = sj.WindowJoin(ON, sj.rows(4), order="full")
    run = join.run(left=sources[0], right=sources[1], max_rows=7, max_delay="1ms")
    results = []
    reader = threading.Thread(target=lambda: results.extend(run))
    reader.start()
    done = [0, 0]
    for row in arrivals:
        side = row["side"]
        feeds[side].put({name: row[name] for name in ("k", "v", "id")})
        done[side] += 1
        eventually(lambda: run.offsets == {"left": done[0], "right": done[1]})
    for feed in feeds:
        feed.put(None)
    reader.join()
    known = sj.WindowJoin(ON, sj.rows(4), order="full")
    assert sj.concat(results).to_pylist() == pushed(known, arrivals)


def test_a_source_that_blocks_does_not_block_the_other():
    release = threading.Event()

    def blocked():
        release.wait(30)
        yield {"k": 1, "v": 1}

    left = ({"k": 1, "v": n % 3} for n in range(500))
    join = sj.WindowJoin(ON, sj.rows(1000))
    run = join.run(left=left, right=blocked(), max_rows=10, max_delay="1ms")
    results = []
    reader = threading.Thread(target=lambda: results.extend(run))
    reader.start()
    eventually(lambda: run.offsets["left"] == 500)
    release.set()
    reader.join()
    assert sum(out.num_rows for out in results) == 500


def test_merge_by_time_of_a_window_of_rows_and_the_default():
    join = sj.WindowJoin(ON, sj.rows(6), order="full")
    expected = pushed(sj.WindowJoin(ON, sj.rows(6), order="full"), merged(LEFT, RIGHT))
    assert collected(join.run(left=LEFT, right=chunked(RIGHT, [4]), time="ts")) == expected


def test_rows_out_of_order_merge_by_time_with_an_interval_and_are_refused_by_within():
    window = sj.interval(3, 3, time="ts", lateness=4)
    shuffled = [{"k": 0, "v": 1, "ts": ts} for ts in (3, 1, 4, 2, 8, 6, 30, 27)]
    other = [{"k": 0, "v": 1, "ts": ts} for ts in range(25)]
    for sizes in ([1], [3], [8]):
        join = sj.WindowJoin(ON, window, how="full", order="full")
        found = collected(
            join.run(left=chunked(shuffled, sizes), right=other, merge="time", max_rows=sizes[0])
        )
        if sizes == [1]:
            first = found
        assert found == first
    join = sj.WindowJoin(ON, WITHIN)
    with pytest.raises(sj.OrderError, match=r"left.*time 1 after 3"):
        collected(join.run(left=shuffled, right=other))
    assert join.stats["rows_left"] <= 1


def test_a_side_that_ended_no_longer_holds_the_watermark_back():
    """Unmatched right rows come out while the right source goes on, since the left one has ended."""
    window = sj.interval(1, 1, time="ts", lateness=0)
    go_on = threading.Event()
    for left in ([], [{"k": 9, "v": 9, "ts": 0}]):
        go_on.clear()

        def right():
            for ts in range(10):
                yield {"k": 0, "v": 0, "ts": ts}
            go_on.wait(30)

        for merge in ("arrival", "time"):
            go_on.clear()
            join = sj.WindowJoin(ON, window, how="right", schemas=(table(rows(1)).drop("id").schema,) * 2)
            run = join.run(left=left, right=right(), merge=merge, max_delay="1ms")
            out = next(run)
            assert out["ts_right"].to_pylist() == list(range(len(out)))
            assert len(out)
            go_on.set()
            assert len(out) + sum(more.num_rows for more in run) == 10


def test_the_end_of_a_side_counts_at_its_place_whatever_the_size_of_batches():
    window = sj.interval(1, 1, time="ts", lateness=2)
    left = [{"k": 0, "v": 0, "ts": ts} for ts in (0, 1, 2)]
    right = [{"k": 0, "v": 0, "ts": ts} for ts in (0, 9, 3, 4, 9, 12, 8)]
    found = []
    for size in (1, 2, 3, 50):
        join = sj.WindowJoin(ON, window, how="full", order="full")
        results = collected(join.run(left=left, right=right, merge="time", max_rows=size))
        found.append((results, join.stats["late_right"]))
    assert found[0][1] > 0
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("merge", ["arrival", "time"])
def test_silence_counts_as_time_passes(merge):
    """No row comes any more; the silent left side is released by the clock alone."""
    window = sj.interval(1, 1, time="ts", lateness=0, idle_after="30ms")
    hold = threading.Event()

    def silent():
        yield {"k": 5, "v": 5, "ts": 0}
        hold.wait(30)

    def right():
        yield [{"k": 0, "v": 0, "ts": ts} for ts in range(10)]
        hold.wait(30)

    join = sj.WindowJoin(ON, window, how="right")
    with join.run(left=silent(), right=right(), merge=merge, max_delay="1ms") as run:
        out = next(run)
        assert out["ts_right"].to_pylist()[:8] == list(range(len(out)))[:8]
        assert len(out) >= 7
        hold.set()


@pytest.mark.parametrize("merge", ["arrival", "time"])
def test_stopping_is_not_the_end_of_a_source(merge):
    """A side that was stopped still holds the watermark back, and in a merge by time its rows wait."""
    window = sj.interval(1, 1, time="ts", lateness=0)

    def endless(last):
        yield [{"k": 0, "v": 0, "ts": ts} for ts in range(last)]
        while True:
            yield None
            time.sleep(0.001)

    join = sj.WindowJoin(ON, window, how="full")
    run = join.run(left=endless(10), right=endless(30), merge=merge, max_delay="1ms")
    next(run)
    run.stop()
    list(run)
    assert join.stats["watermark"] == (9 if merge == "arrival" else 8)
    assert run.offsets == {"left": 10, "right": 30 if merge == "arrival" else 9}


def test_stop_joins_what_was_read_and_leaves_the_join_open():
    hold = threading.Event()

    def left():
        yield from LEFT
        while not hold.wait(0.005):
            yield None

    for how in ("handle", "event", "function"):
        hold.clear()
        asked = threading.Event()
        stop = {"handle": None, "event": asked, "function": asked.is_set}[how]
        join = sj.WindowJoin(ON, sj.rows(1000))
        run = join.run(left=left(), right=Closing(RIGHT), max_rows=5, stop=stop)
        count = next(run).num_rows
        run.stop() if how == "handle" else asked.set()
        count += sum(out.num_rows for out in run)
        offsets = run.offsets
        assert join.stats["rows_left"] == offsets["left"]
        assert join.stats["rows_right"] == offsets["right"]
        rest = [join.push(left=LEFT[offsets["left"] :]) if offsets["left"] < 50 else None]
        rest.append(join.push(right=RIGHT[offsets["right"] :]) if offsets["right"] < 40 else None)
        count += sum(out.num_rows for out in rest if out)
        whole = sj.WindowJoin(ON, sj.rows(1000))
        whole.push(left=LEFT)
        assert count == whole.push(right=RIGHT).num_rows


def test_closing_and_dropping_close_sources_and_offsets_tell_what_was_joined():
    for end in ("close", "drop", "with", "break"):
        left, right = Closing(iter(rows(10_000))), Closing(iter(rows(10_000, 1)))
        join = sj.WindowJoin(ON, sj.rows(100))
        run = join.run(left=left, right=right, max_rows=16)
        if end == "with":
            with run:
                next(run)
        elif end == "break":
            for _ in run:
                break
            run.close()
        else:
            next(run)
        offsets = run.offsets
        if end == "close":
            run.close()
            assert list(run) == []
        del run
        assert threads() == []
        assert (left.closed, right.closed) == (1, 1)
        assert join.stats["rows_left"] == offsets["left"] < 10_000
        assert join.stats["rows_right"] == offsets["right"]


def test_a_run_that_is_never_iterated_reads_nothing():
    left = Closing([])
    sj.WindowJoin(ON, 10).run(left=left, right=[])
    assert left.closed == 0


def test_a_source_that_blocks_for_ever_is_unblocked_by_its_close():
    class Socket:
        def __init__(self):
            self.rows = queue.Queue()
            self.closed = False

        def __iter__(self):
            return self

        def __next__(self):
            row = self.rows.get()
            if row is None:
                raise StopIteration
            return row

        def close(self):
            self.closed = True
            self.rows.put(None)

    socket = Socket()
    join = sj.WindowJoin(ON, 10)
    run = join.run(left=socket, right=[{"k": 1, "v": 1}], max_delay="0ms")
    socket.rows.put({"k": 1, "v": 1})
    assert next(run).num_rows == 1
    begin = time.monotonic()
    run.close()
    assert socket.closed
    assert time.monotonic() - begin < 2


def test_self_join_takes_one_source():
    stream = [{"k": n % 3, "v": n % 4} for n in range(30)]
    known = sj.WindowJoin(ON, 10, self_join=True)
    expected = known.push(stream).num_rows
    join = sj.WindowJoin(ON, 10, self_join=True)
    run = join.run(chunked(stream, [4, 1]), max_rows=6)
    assert sum(out.num_rows for out in run) == expected
    assert run.offsets == 30


def test_finish_can_be_left_out_and_a_second_run_goes_on():
    join = sj.WindowJoin(ON, WITHIN, how="left", order="full")
    cut = 20
    first = join.run(left=LEFT[:cut], right=[row for row in RIGHT if row["ts"] < cut], finish=False)
    found = collected(first)
    second = join.run(left=LEFT[cut:], right=[row for row in RIGHT if row["ts"] >= cut])
    found += collected(second)
    assert found == pushed(sj.WindowJoin(ON, WITHIN, how="left", order="full"), merged(LEFT, RIGHT))
    with pytest.raises(sj.UsageError, match="finished"):
        join.run(left=[], right=[])


def test_empty_sources_and_empty_batches():
    assert collected(sj.WindowJoin(ON, 10).run(left=[], right=[])) == []
    assert collected(sj.WindowJoin(ON, WITHIN).run(left=[], right=[[]])) == []
    empty = table(LEFT).slice(0, 0)
    join = sj.WindowJoin(ON, WITHIN, how="left")
    found = collected(join.run(left=[[], table(LEFT[:2])], right=[empty, empty]))
    assert [row["id_right"] for row in found] == [None, None]


def test_offsets_that_sources_tell():
    def parts(offset):
        for n in range(offset or 0, 5):
            yield sj.Batch(LEFT[n * 10 : n * 10 + 10], offset={"part": n + 1} if n < 4 else None)
        yield sj.Batch([], offset="end")

    join = sj.WindowJoin(ON, WITHIN, order="full")
    run = join.run(left=parts, right=RIGHT)
    assert collected(run) == EXPECTED
    assert run.offsets == {"left": "end", "right": 40}
    assert run.result_rows == len(EXPECTED)


def test_offsets_of_batches_count_when_all_of_their_rows_were_joined():
    def left():
        yield sj.Batch(LEFT[:10], offset="a")
        yield sj.Batch(LEFT[10:30], offset="b")
        while True:
            yield None
            time.sleep(0.001)

    def right():
        yield from RIGHT[:15]
        while True:
            yield None
            time.sleep(0.001)

    join = sj.WindowJoin(ON, WITHIN)
    with join.run(left=left(), right=right(), max_delay="1ms") as run:
        for _ in run:
            if join.stats["rows_right"] == 15:
                break
        assert run.offsets == {"left": "a", "right": 15}


def test_a_source_tells_offsets_always_or_never():
    left = [sj.Batch(LEFT[:10], offset=10), LEFT[10]]
    with pytest.raises(sj.UsageError, match="left source told offsets for some"):
        collected(sj.WindowJoin(ON, 10).run(left=left, right=[]))


BATCH = table(LEFT)
WRONG = [
    ({"left": LEFT}, sj.UsageError, "both sources are needed"),
    ({"left": BATCH, "right": []}, sj.UsageError, r"left is a Table, a single batch; .*\[batch\]"),
    ({"left": [], "right": pd.DataFrame(LEFT)}, sj.UsageError, "right is a DataFrame, a single batch"),
    ({"left": "file.csv", "right": []}, sj.UsageError, "left is a str; expected an iterable"),
    ({"left": 5, "right": []}, sj.UsageError, "left is a int; expected an iterable"),
    ({"left": LEFT, "right": LEFT}, sj.UsageError, "same object"),
    ({"merge": "key"}, sj.SpecError, "merge='key'; expected 'arrival' or 'time'"),
    ({"merge": "time"}, sj.SpecError, r"needs a column, rows\(10\) names none"),
    ({"merge": "arrival", "time": "ts"}, sj.SpecError, "merge='arrival' needs no column"),
    ({"time": 5}, sj.SpecError, "time=5; expected the name of a column"),
    ({"max_rows": 0}, sj.SpecError, "max_rows=0; expected a number of rows, 1 at least"),
    ({"max_delay": "soon"}, sj.SpecError, "max_delay"),
    ({"max_delay": 5}, sj.SpecError, "max_delay=5; expected a duration, such as '5ms'"),
    ({"max_delay": "-1ms"}, sj.SpecError, "max_delay"),
    ({"stop": 1}, sj.SpecError, "stop=1; expected an Event"),
    ({"snapshot": 1}, sj.SpecError, "snapshot=1; expected the name of a file"),
    ({"snapshot_every": "1s"}, sj.SpecError, "without snapshot=; name the file"),
    ({"snapshot": "x", "snapshot_every": 0}, sj.SpecError, "snapshot_every=0; expected 1 row at least"),
    ({"resume": 1}, sj.SpecError, "resume=1; expected True or False"),
    ({"finish": "no"}, sj.SpecError, "finish='no'; expected True or False"),
    ({"snapshot": "x", "resume": True}, sj.UsageError, "left is a list, which cannot go on at an offset"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG, ids=lambda each: str(each)[:40])
def test_wrong_arguments_are_refused_before_a_source_is_touched(options, error, message):
    join = sj.WindowJoin(ON, 10)
    sources = {"left": list(LEFT), "right": list(RIGHT)}
    if "left" in options:
        sources = {}
    with pytest.raises(error, match=message):
        join.run(**sources, **options)
    assert join.push(left=LEFT[:1]).num_rows == 0


def test_wrong_uses():
    async def feed():
        yield {}

    with pytest.raises(sj.UsageError, match="left is an async iterable; use run_async"):
        sj.WindowJoin(ON, 10).run(left=feed(), right=[])
    with pytest.raises(sj.UsageError, match=r"one stream; expected run\(batches\)"):
        sj.WindowJoin(ON, 10, self_join=True).run(left=[], right=[])
    with pytest.raises(sj.SpecError, match="a self-join has one source"):
        sj.WindowJoin(ON, 10, self_join=True).run([], merge="time")
    join = sj.WindowJoin(ON, WITHIN)
    join.source("left", "a")
    with pytest.raises(sj.UsageError, match="has sources"):
        join.run(left=[], right=[])
    with pytest.raises(sj.UsageError, match="resume=True without snapshot="):
        sj.WindowJoin(ON, 10).run(left=lambda _: [], right=lambda _: [], resume=True)


def test_a_side_that_never_came_is_released_by_its_silence():
    """Merged by time, rows wait for the columns of the other side, too; silence ends that."""
    window = sj.interval(1, 1, time="ts", lateness=0, idle_after="20ms")
    hold = threading.Event()

    def silent():
        hold.wait(30)
        yield {"k": 0, "v": 0, "ts": 9}

    def left():
        yield [{"k": 0, "v": 0, "ts": ts} for ts in range(10)]
        hold.wait(30)

    join = sj.WindowJoin(ON, window, how="left")
    run = join.run(left=left(), right=silent(), merge="time", max_delay="1ms")
    results = []
    reader = threading.Thread(target=lambda: results.extend(run))
    reader.start()
    eventually(lambda: run.offsets["left"] == 10)
    hold.set()
    reader.join()
    assert sum(out.num_rows for out in results) == 10


def test_one_run_at_a_time():
    join = sj.WindowJoin(ON, 10)
    with join.run(left=LEFT, right=RIGHT, max_rows=5) as first:
        next(first)
        with pytest.raises(sj.UsageError, match="another run of this join is under way"):
            next(join.run(left=LEFT, right=RIGHT))
    assert collected(join.run(left=LEFT[:5], right=RIGHT[:5])) is not None


def test_single_rows_are_gathered_as_all_others_are():
    for sides in ([0, 1, 1, 0, 1], [1, 1], [0], []):
        entries = [(side, {"x": n, "y": str(n)}, 0) for n, side in enumerate(sides)]
        found = [each(entries, [Side("left"), Side("right")]) for each in (gathered, gathered_rows)]
        assert found[0].tables == found[1].tables
        if len(found[0].tables) == 2:
            assert found[0].sides.tolist() == found[1].sides.tolist() == sides
        else:
            assert found[0].counts == found[1].counts


def test_rows_that_wait_at_a_snapshot_are_joined_once_after_a_resume(tmp_path):
    """The left side is a batch ahead; its offset is behind rows that are in the snapshot only."""

    def left(offset):
        for place in range(offset or 0, 40, 20):
            yield sj.Batch(LEFT[place : place + 20], offset=place + 20)

    def right(upto):
        def opened(offset):
            yield from RIGHT[offset:upto]
            while upto < len(RIGHT):
                yield None
                time.sleep(0.001)

        return opened

    found = []
    for upto in (10, 25, 40):
        join = sj.WindowJoin(ON, WITHIN, how="full", order="full")
        run = join.run(
            left=left, right=right(upto), snapshot=tmp_path / "state", resume=True, max_delay="1ms"
        )
        stopper = threading.Thread(target=stop_at, args=(run, upto)) if upto < 40 else None
        if stopper:
            stopper.start()
        found += collected(run)
        if stopper:
            stopper.join()
            assert run.offsets["left"] <= upto
    known = sj.WindowJoin(ON, WITHIN, how="full", order="full")
    assert found == pushed(known, merged(LEFT[:40], RIGHT))


def stop_at(run, upto):
    eventually(lambda: run.offsets["right"] == upto)
    run.stop()


def test_a_side_that_ended_without_a_row_is_released_before_the_first_row():
    window = sj.interval(1, 1, time="ts", lateness=0)
    right = [{"k": 0, "v": 0, "ts": ts} for ts in (0, 9, 3, 4)]
    for size in (1, 50):
        join = sj.WindowJoin(ON, window)
        collected(join.run(left=[], right=chunked(right, [4]), merge="time", max_rows=size))
        assert join.stats["late_right"] == 2


def test_stop_joins_rows_that_are_not_due_yet():
    was_read = threading.Event()

    def left():
        yield from LEFT[:3]
        was_read.set()
        while True:
            yield None
            time.sleep(0.001)

    join = sj.WindowJoin(ON, 10)
    run = join.run(left=left(), right=iter(lambda: time.sleep(0.001), 1), max_rows=100, max_delay="1h")
    reader = threading.Thread(target=lambda: list(run))
    reader.start()
    was_read.wait(10)
    run.stop()
    reader.join()
    assert run.offsets == {"left": 3, "right": 0}


@pytest.mark.parametrize("schemas", [None, (table(LEFT).schema,) * 2])
def test_sources_that_ended_and_have_grown_hold_the_watermark_back_again(schemas, tmp_path):
    """One of them is read far ahead of the other; no row of the other may be late."""
    window = sj.interval(2, 2, time="ts", lateness=0)
    restored = tmp_path / "state"
    ends = [(0, 0), (20, 20), (20, 20), (50, 40)] if schemas else [(20, 20), (50, 40)]
    for resume in (False, True):
        join = sj.WindowJoin(ON, window, schemas=schemas)
        found, start = [], (0, 0)
        for upto in ends:
            is_left_read = threading.Event()

            def left(offset, upto=upto, start=start, is_left_read=is_left_read):
                yield LEFT[offset or start[0] : upto[0]]
                is_left_read.set()

            def right(offset, upto=upto, start=start, is_left_read=is_left_read):
                is_left_read.wait(10)
                time.sleep(0.01)
                yield RIGHT[offset or start[1] : upto[1]]

            if resume:
                join = sj.WindowJoin(ON, window, schemas=schemas)
            options = {"snapshot": restored, "resume": True} if resume else {}
            sources = {"left": left, "right": right}
            found += collected(join.run(**sources, max_delay="0ms", finish=False, **options))
            start = (0, 0) if resume else upto
        assert (join.stats["late_left"], join.stats["late_right"]) == (0, 0)
        known = sj.WindowJoin(ON, sj.interval(2, 2, time="ts"))
        assert len(found) == len(pushed(known, merged(LEFT, RIGHT)))


def test_a_run_cannot_resume_from_an_older_moment_of_its_own_join(tmp_path):
    """The note of a snapshot is used once: a second resume of the same join would join rows twice."""
    path = tmp_path / "state"
    first = sj.WindowJoin(ON, 10)
    for _ in first.run(left=lambda _: [], right=lambda _: [], snapshot=path, finish=False):
        pass
    join = sj.WindowJoin.restore(path) if path.exists() else sj.WindowJoin(ON, 10)
    list(
        join.run(
            left=lambda _: [{"k": 1, "v": 1}], right=lambda _: [], snapshot=path, resume=True, finish=False
        )
    )
    with pytest.raises(sj.UsageError, match="needs a new join"):
        join.run(left=lambda _: [{"k": 1, "v": 1}], right=lambda _: [], snapshot=path, resume=True)


def test_a_join_goes_on_by_push_after_a_run():
    """Sides that had ended in the run hold the watermark back again."""
    left = [{"k": 1, "ts": n * 20} for n in range(200)]
    right = [{"k": 1, "ts": n * 20 + 7} for n in range(200)]
    window = sj.interval(100, 100, time="ts", lateness=50)
    driven, pushed_only = (sj.WindowJoin(sj.equal("k"), window) for _ in range(2))
    found = sum(t.num_rows for t in driven.run(left=left[:100], right=right[:100], finish=False))
    wanted = pushed_only.push(left=left[:100]).num_rows + pushed_only.push(right=right[:100]).num_rows
    for join in (driven, pushed_only):
        more = join.push(right=right[100:]).num_rows + join.push(left=left[100:]).num_rows
        found, wanted = (found + more, wanted) if join is driven else (found, wanted + more)
    assert found == wanted
    assert driven.stats["late_left"] == 0
