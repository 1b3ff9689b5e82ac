"""Columns that Arrow cannot gather: bad ones are refused, long ones work, a join can always be closed."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slidejoin as sj

NAMES = pa.array(["a", "b"])
RUNS = pa.run_end_encoded(pa.int16(), pa.string())
LONG = 40_000  # more than run ends of 16 bits can count


def indexed(indices, values=NAMES):
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), values, safe=False)


def nested(indices):
    return pa.StructArray.from_arrays([indexed(indices)], ["name"])


BAD = {
    "too large": indexed([0, 2]),
    "negative": indexed([0, -1]),
    "no values": indexed([None, 0], NAMES.slice(0, 0)),
    "nested": nested([0, 2]),
}
GOOD = {"too large": indexed, "negative": indexed, "no values": indexed, "nested": nested}


def rows(payload, ts=(10, 10)):
    return pa.table({"id": [1, 2][: len(payload)], "ts": list(ts)[: len(payload)], "payload": payload})


WINDOWS = {
    "rows": lambda: sj.rows(5),
    "late": lambda: sj.interval(5, 5, time="ts", lateness=0, late="return"),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("what", BAD)
def test_a_bad_payload_changes_nothing(what, window):
    join = sj.WindowJoin(sj.equal("id"), WINDOWS[window]())
    good = rows(GOOD[what]([0, 1]))
    join.push(left=good)
    join.push(right=good)
    before = join.stats
    for call in (
        lambda: join.push(left=rows(BAD[what])),
        lambda: join.push(right=rows(BAD[what], (9, 10))),  # a late row is left out
        lambda: join.push(arrivals=rows(BAD[what]).append_column("side", pa.array([0, 1]))),
    ):
        with pytest.raises(sj.SchemaError, match="column 'payload'"):
            call()
    assert {**join.stats, "memory_bytes": 0} == {**before, "memory_bytes": 0}
    found = join.push(left=good)
    assert [row["payload"] for row in found.to_pylist()] == [row["payload"] for row in good.to_pylist()]
    join.check()
    join.close()


@pytest.mark.parametrize("what", BAD)
def test_a_bad_payload_does_not_wait_in_a_source(what):
    join = sj.WindowJoin(sj.equal("id"), sj.within(5, time="ts"))
    a, b = join.source("left", "a"), join.source("right", "b")
    with pytest.raises(sj.SchemaError, match="column 'payload'"):
        a.push(rows(BAD[what]))
    a.push(rows(GOOD[what]([0, 1])))
    b.push(rows(GOOD[what]([0, 1])))
    assert join.finish().num_rows == 2


@pytest.mark.parametrize("values", [NAMES, NAMES.slice(0, 0)])
def test_a_bad_key_is_refused(values):
    join = sj.WindowJoin(sj.equal("id"), sj.rows(5))
    join.push(left={"id": ["a", "b"]})
    for indices in ([2], [-1]):
        with pytest.raises(sj.SchemaError, match="column 'id'"):
            join.push(right={"id": indexed(indices, values)})
    assert join.push(right={"id": indexed([1])}).num_rows == 1


def runs(values):
    return pc.run_end_encode(pa.array(values), run_end_type=pa.int16())


def test_runs_longer_than_their_ends_count():
    """Results, late rows and rows of a side that never came have as many chunks as they need."""
    window = sj.interval(5, 5, time="ts", lateness=0, late="return")
    join = sj.WindowJoin(sj.equal("id"), window, how="left")
    half = LONG // 2
    text = [f"name {i // 3}" for i in range(LONG)]
    chunks = pa.chunked_array([runs(text[:half]), runs(text[half:])])
    left = pa.table({"id": np.zeros(LONG, np.int64), "ts": np.full(LONG, 10), "name": chunks})
    right = pa.table({"id": [0], "ts": [10], "name": runs(["x"])})
    join.push(left=left)
    found = join.push(right=right)
    found.validate(full=True)
    assert found["name"].type == RUNS
    assert found["name"].to_pylist() == text
    assert found["name_right"].to_pylist() == ["x"] * LONG
    join = sj.WindowJoin.restore(join.snapshot())
    assert join.push(right=right)["name"].to_pylist() == text
    late = left.set_column(1, "ts", pa.array(np.full(LONG, 9)))
    assert join.push(left=late).num_rows == 0
    assert join.take_late("left")["name"].to_pylist() == text
    assert join.push(arrivals=left.append_column("side", pa.array(["left"] * LONG))).num_rows == 2 * LONG


def test_runs_of_a_side_that_never_came():
    schemas = pa.schema({"id": pa.int64()}), pa.schema({"id": pa.int64(), "name": RUNS})
    join = sj.WindowJoin(sj.equal("id"), sj.rows(LONG), how="left", schemas=schemas)
    join.push(left={"id": np.arange(LONG)})
    assert join.finish()["name"].to_pylist() == [None] * LONG
    join = sj.WindowJoin(sj.equal("id"), sj.rows(1), how="left")
    join.push(left={"id": np.arange(LONG)})
    found = join.push(right={"id": [-1], "name": runs(["x"])})
    assert found["name"].to_pylist() == [None] * (LONG - 1)


def test_a_join_that_cannot_go_on_can_be_closed(monkeypatch):
    join = sj.WindowJoin(sj.equal("id"), sj.rows(5))
    join.push(left={"id": [1]})

    def fail(*_):
        raise pa.ArrowInvalid("no way")

    monkeypatch.setattr(sj.live, "matched_rows", fail)
    with pytest.raises(pa.ArrowInvalid), join:  # closes it
        join.push(right={"id": [1]})
    assert join.stats["rows_right"] == 1
    with pytest.raises(sj.UsageError, match="closed"):
        join.push(left={"id": [1]})
