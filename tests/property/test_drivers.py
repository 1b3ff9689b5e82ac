"""A run gives what one push of all rows gives, for any chunking, merging and place of a break."""

import asyncio
import os

import pyarrow as pa
from drive.streams import collected
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
EFFORT = settings(max_examples=settings().max_examples // (1 if LONG else 4))
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64()), ("ts", pa.int64())])
ON = sj.equal("k") & sj.band("v", within=1)
WINDOWS = [
    sj.rows(3),
    sj.rows(left=2, right=5),
    sj.within(4, time="ts"),
    sj.interval(3, 2, time="ts", lateness=2),
    sj.interval(3, 2, time="ts", lateness=0, late="return"),
]
HOWS = ["inner", "full", "left_anti", "right_semi"]


@st.composite
def side_rows(draw, disorder):
    times = draw(st.lists(st.integers(0, 20), max_size=15))
    if not disorder:
        times.sort()
    return [
        {"id": n, "k": draw(st.integers(0, 1)), "v": draw(st.sampled_from([0.0, 1.0, 2.5, None])), "ts": ts}
        for n, ts in enumerate(times)
    ]


@st.composite
def cases(draw):
    window = draw(st.sampled_from(WINDOWS))
    disorder = window.has_watermark and draw(st.booleans())
    sides = draw(side_rows(disorder)), draw(side_rows(disorder))
    return window, draw(st.sampled_from(HOWS)), sides


def effective(rows):
    """Times that rows are merged by: the latest one so far."""
    latest = -1
    for row in rows:
        latest = max(latest, row["ts"])
        yield latest


def expected(window, how, sides):
    """One push in the order of (time, side), with the first side that ends released at its place."""
    join = made(window, how)
    both = [
        (time, side, place, row)
        for side, rows in enumerate(sides)
        for place, (time, row) in enumerate(zip(effective(rows), rows, strict=True))
    ]
    both.sort(key=lambda each: each[:3])
    last = [max((i for i, each in enumerate(both) if each[1] == side), default=-1) for side in (0, 1)]
    parts = []
    for place in range(-1, len(both)):
        if place >= 0:
            row = pa.Table.from_pylist([both[place][3]], SCHEMA)
            parts.append(join.push(**{("left", "right")[both[place][1]]: row}))
        ended = [side for side in (0, 1) if last[side] == place and window.lateness is not None]
        parts += [join._rest(side) for side in ended]
    late = window.returns_late and [join.take_late(side).to_pylist() for side in ("left", "right")]
    return sj.concat([*parts, join.finish()]).to_pylist(), late


def made(window, how):
    return sj.WindowJoin(ON, window, how=how, order="full", schemas=(SCHEMA, SCHEMA))


def source(rows, sizes, kind):
    """Rows in batches of drawn sizes: single rows, tables, or batches with an offset."""
    place = turn = 0
    while place < len(rows):
        size = sizes[turn % len(sizes)]
        part = rows[place : place + size]
        place, turn = place + size, turn + 1
        if kind == "rows" or size == 0:
            yield from part
            if not part:
                yield None
        elif kind == "tables":
            yield pa.Table.from_pylist(part, SCHEMA)
        else:
            yield sj.Batch(part, offset=min(place, len(rows)))


KINDS = st.sampled_from(["rows", "tables", "offsets"])
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=3)


@EFFORT
@given(
    case=cases(), sizes=st.tuples(SIZES, SIZES), kinds=st.tuples(KINDS, KINDS), max_rows=st.integers(1, 40)
)
def test_merged_by_time_equals_one_push(case, sizes, kinds, max_rows):
    window, how, sides = case
    join = made(window, how)
    left, right = (source(*each) for each in zip(sides, sizes, kinds, strict=True))
    time = None if window.uses_time else "ts"
    run = join.run(left=left, right=right, merge="time", time=time, max_rows=max_rows)
    found = collected(run)
    late = window.returns_late and [join.take_late(side).to_pylist() for side in ("left", "right")]
    assert (found, late) == expected(window, how, sides)
    assert run.offsets == {"left": len(sides[0]), "right": len(sides[1])}


@EFFORT
@given(
    case=cases(),
    sizes=st.tuples(SIZES, SIZES),
    kinds=st.tuples(KINDS, KINDS),
    max_rows=st.integers(1, 10),
    every=st.integers(1, 8),
    breaks=st.lists(st.tuples(st.integers(0, 10), st.booleans()), max_size=3),
)
def test_resumed_runs_give_the_results_of_one(case, sizes, kinds, max_rows, every, breaks, tmp_path_factory):
    """A run that is abandoned goes on from its last snapshot, one that is stopped from its end."""
    window, how, sides = case
    path = tmp_path_factory.mktemp("run") / "state"
    functions = [
        lambda offset, rows=rows, size=size, kind=kind: (
            source(rows[offset:], size, kind) if kind != "offsets" else shifted(rows, offset, size)
        )
        for rows, size, kind in zip(sides, sizes, kinds, strict=True)
    ]
    options = {
        "left": functions[0],
        "right": functions[1],
        "merge": "time",
        "time": None if window.uses_time else "ts",
        "max_rows": max_rows,
        "snapshot": path,
        "snapshot_every": every,
        "resume": True,
    }
    found = []
    for count, stops in [*breaks, (None, False)]:
        run = made(window, how).run(**options)
        del found[run.result_rows :]  # a sink that is cut to what the snapshot tells
        for turn, out in enumerate(run):
            found += out.to_pylist()
            if turn == count and stops:
                run.stop()
            elif turn == count:
                break
        run.close()
        if stops:
            assert run.result_rows == len(found)
    assert found == expected(window, how, sides)[0]


def shifted(rows, offset, sizes):
    for batch in source(rows[offset:], sizes, "offsets"):
        yield sj.Batch(batch.rows, offset=batch.offset + offset)


@EFFORT
@given(
    rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 4)), max_size=30),
    max_rows=st.integers(1, 9),
)
def test_the_order_of_arrival_is_that_of_the_sources(rows, max_rows):
    """Two async sources that hand the turn to each other: their order is known, and must be kept."""
    arrivals = [{"side": side, "id": n, "k": k, "v": float(v)} for n, (side, k, v) in enumerate(rows)]

    async def main():
        turn = asyncio.Condition()
        place = 0

        async def side_source(side):
            nonlocal place
            mine = [n for n, row in enumerate(arrivals) if row["side"] == side]
            for n in mine:
                async with turn:
                    while place != n:
                        await turn.wait()
                yield {name: arrivals[n][name] for name in ("id", "k", "v")}
                async with turn:
                    place += 1
                    turn.notify_all()

        schema = pa.schema([SCHEMA.field(i) for i in range(3)])
        join = sj.WindowJoin(ON, sj.rows(3), order="full", how="left", schemas=(schema, schema))
        run = join.run_async(left=side_source(0), right=side_source(1), max_rows=max_rows, max_delay="0ms")
        return sj.concat([out async for out in run]).to_pylist(), schema

    found, schema = asyncio.run(main())
    known = sj.WindowJoin(ON, sj.rows(3), order="full", how="left", schemas=(schema, schema))
    parts = [known.push(arrivals=arrivals)] if arrivals else []
    assert found == sj.concat([*parts, known.finish()]).to_pylist()
