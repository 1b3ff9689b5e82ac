"""A refused call changes nothing, also when idle sides, promises and units of time are combined."""

import gc
import weakref
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

S, NS = pa.timestamp("s"), pa.timestamp("ns")
FAR = 10**11  # seconds that do not fit 64 bits of nanoseconds


def rows(seconds, type_=S, ids=None):
    per = 10**9 if type_ == NS else 1
    ids = list(range(len(seconds))) if ids is None else ids
    return pa.table({"id": ids, "ts": pa.array([value * per for value in seconds], type_)})


def silent_join(how="left", schemas=None):
    window = sj.interval("10s", "20s", time="ts", lateness="0s", idle_after="30s")
    join = sj.WindowJoin(sj.equal("id"), window, how=how, schemas=schemas)
    clock = [0]
    join._clock, join._last_seen = lambda: clock[0], [0, 0]
    return join, clock


def test_a_refused_batch_does_not_end_a_silence():
    fields = [pa.schema({"id": pa.int64(), "ts": type_}) for type_ in (S, NS)]
    join, clock = silent_join(schemas=tuple(fields))
    join.push(left=rows([100, 200]))
    clock[0] = 31 * 10**9
    before = join.stats
    with pytest.raises(sj.SchemaError, match="does not fit"):
        join.push(left=pa.table({"id": [3], "ts": pa.array([FAR], S)}))
    assert join.stats == before
    assert join.finish()["id"].to_pylist() == [0, 1]


def test_a_promise_beyond_the_units_of_the_other_side():
    """A promise in seconds holds also where it is too far away for the nanoseconds of the other side."""

    def ending(unit):
        window = sj.interval("10s", "20s", time="ts", lateness="0s")
        join = sj.WindowJoin(sj.equal("id"), window, how="left")
        join.push(left=rows([70, 100]))
        join.advance(pa.scalar(50, S), "left")
        join.advance(pa.scalar(FAR, S), "right")
        join.push(right=rows([95], unit, [1]))
        join = sj.WindowJoin.restore(join.snapshot())
        return {**join.stats, "memory_bytes": 0}, join.finish()["id"].to_pylist()

    assert ending(NS) == ending(S)
    assert ending(S)[0]["late_right"] == 1


def test_a_promise_whose_unit_the_rows_do_not_fit():
    """While a side is not known, a promise is kept exactly; one that cannot be is refused."""
    join = sj.WindowJoin(sj.equal("id"), sj.interval("10s", "20s", time="ts"))
    join.push(left=rows([FAR]))
    before = join.stats
    with pytest.raises(sj.SchemaError, match="does not fit 64 bits of ns"):
        join.advance(pa.scalar(1, NS))
    assert join.stats == before
    join.push(right=rows([0], S).slice(0, 0))
    join.advance(pa.scalar(10**9 + 1, NS))  # both sides count seconds: 2
    assert join.stats["watermark"] == datetime(1970, 1, 1, 0, 0, 2)


def test_a_finer_unit_does_not_wake_a_silent_side():
    fields = [pa.schema({"id": pa.int64(), "ts": type_}) for type_ in (S, NS)]
    found = []
    for schemas in (None, tuple(fields)):
        join, clock = silent_join("inner", schemas)
        join.push(left=rows([100]))
        join.advance(pa.scalar(101, S), "left")
        clock[0] = 31 * 10**9
        join.push(right=rows([200, 150], NS))
        found.append((join.stats["watermark"], join.stats["late_right"]))
    assert found[0] == found[1]
    assert found[0][1] == 1


def test_a_source_that_is_refused_makes_no_join_of_sources():
    join = sj.WindowJoin(sj.equal("id"), 10)
    with pytest.raises(sj.UsageError, match="time='column'"):
        join.source("left", "a")
    assert join.push(left={"id": [1]}).num_rows == 0
    sj.WindowJoin.restore(join.snapshot())


def test_late_rows_are_copies():
    values = np.array([7, 8])
    table = pa.table({"id": values, "ts": np.array([1, 2])})
    join = sj.WindowJoin(sj.equal("id"), sj.interval(1, 1, time="ts", late="return"))
    join.push(left=table.slice(0, 0))
    join.advance(10)
    join.push(left=table)
    values[:] = 0
    assert join.take_late("left")["id"].to_pylist() == [7, 8]


def test_a_closed_join_lets_go_of_its_rows():
    join = sj.WindowJoin(sj.equal("id"), 10)
    join.push(left={"id": [1]})
    live = weakref.ref(join._live)
    join.close()
    gc.collect()
    assert live() is None


def test_late_rows_are_of_a_side():
    join = sj.WindowJoin(sj.equal("id"), sj.interval(1, 1, time="ts", late="return"))
    with pytest.raises(sj.UsageError, match="side=None"):
        join.take_late(None)


@pytest.mark.parametrize("within", [0.0, 1e-12, 1e-6, 0.25])
@pytest.mark.parametrize("key", [pa.float32(), pa.float64()])
def test_narrow_bands_of_equal_symbols_find_their_partners(within, key):
    """Cells of floats at every scale, on both sides of where cells are finer than the floats themselves."""
    values = [0.0, -0.0, 1e-40, -1e-40, 1.0, 1.25, -1.25, 1e6, 1e6 + 0.25, -1e15, 1e30, 3e38, float("inf")]
    values += [float(np.nextafter(np.float32(v), np.float32(9))) for v in (1.0, 1e6, -1e15)]
    table = pa.table({"s": [1] * len(values), "v": pa.array(values, key)})
    found = []
    for on in (sj.equal("s") & sj.band("v", within=within), sj.band("v", within=within)):
        for first, second in (("left", "right"), ("right", "left")):
            join = sj.WindowJoin(on, sj.rows(100), order="full")
            join.push(**{first: table})
            result = join.push(**{second: table})
            found.append(sorted(zip(*(result[name].to_pylist() for name in ("v", "v_right")), strict=True)))
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert len(found[0]) >= len(values)


def test_a_latest_time_that_a_finer_unit_cannot_hold():
    """Probe-only rows are not kept, but their times count: the next ones may not be earlier."""
    join = sj.WindowJoin(sj.equal("id"), sj.within("10s", time="ts"))
    join.push(left=rows([FAR]), store=False)
    before = join.stats
    with pytest.raises(sj.SchemaError, match="does not fit 64 bits"):
        join.push(right=rows([100], NS))
    assert join.stats == before
    with pytest.raises(sj.OrderError):
        join.push(right=rows([FAR - 1]))
    assert join.push(right=rows([FAR])).num_rows == 0
    join.check()
